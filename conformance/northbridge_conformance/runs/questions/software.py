"""Questions about a backend whose software is loaded, if this machine has it.

torch is imported by the functions, after northbridge: its import loads the backends' own.
"""

from __future__ import annotations

import base64
import inspect
import multiprocessing
import os
import pickle
import platform
import random
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

import northbridge

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def load(name: str, rank: str, ranks: str) -> dict[str, object]:
    """Return the state after loading the backend ``name`` as rank ``rank`` of ``ranks``, or the error."""
    import torch

    from northbridge.contract import broken_defaults
    from northbridge.discovery.present import detect
    from northbridge.processes.environment import environment_at_start

    backend = northbridge.get(name)
    # A vendor's import has already written its variables if it came with that of torch.
    before, state = environment_at_start(), _state(torch)
    found: dict[str, Any] = {"pickles": {"declared": _pickle(backend)}}
    try:
        found["detected"] = detect(backend)
        northbridge.load(name)
    except northbridge.NorthbridgeError as error:
        if getattr(error, "timed_out", False):
            raise
        if _is_of_torch(torch, backend):
            found["broken defaults"] = broken_defaults(backend, backend.capabilities)
        return {**found, "error": [type(error).__name__, str(error)], "variables": _changed(before)}
    found["states"] = [state, _state(torch)]
    module: Any = backend.device.module
    first = _look(torch, backend)
    again = northbridge.load(name)
    found["loaded again"] = _say(backend.bridge.load)
    found["looks"] = [first, _look(torch, again)]
    found["same objects"] = again is backend and backend.device.module is module is _module_of_torch(torch, backend)
    found["is available"] = _say(module.is_available) if hasattr(module, "is_available") else "it does not say"
    found["broken defaults"] = broken_defaults(backend)
    found["mixed precision"] = _tell_of_mixed_precision(torch, backend)
    index = int(rank)
    if backend.device.count() > index:
        try:
            backend.bridge.prepare_rank(index=index, local_rank=index, world_size=int(ranks))
        except northbridge.NorthbridgeError as error:  # for example about a variable that the user has set
            found["refused for a rank"] = str(error)
    return {**found, "pickles": {**found["pickles"], "loaded": _pickle(backend)}, "variables": _changed(before)}


def _is_of_torch(torch: Any, backend: Any) -> bool:
    """Return True if the device's module comes with torch, so that it is here without the chip's software."""
    is_default = inspect.getattr_static(backend.device, "module") is vars(northbridge.Device)["module"]
    return is_default and PathFinder.find_spec(f"torch.{backend.device.type}", torch.__path__) is not None


def _say(function: Callable[[], object]) -> str:
    """Return the repr of the result of ``function``, or its error, as text."""
    try:
        return repr(function())
    except Exception as error:  # noqa: BLE001 - whatever a vendor's code raises
        return f"{type(error).__name__}: {error}"


def _state(torch: Any) -> dict[str, str]:
    """Return the process-wide state that code other than the chip's software relies on."""
    numpy: Any = sys.modules.get("numpy")
    return {
        "torch's generator": str(torch.default_generator.get_state().tolist()),
        "Python's generator": str(random.getstate()),
        "numpy's generator": str(numpy.random.get_state()) if numpy else "",
        "default dtype": str(torch.get_default_dtype()),
        "threads": str(torch.get_num_threads()),
        "gradients": str(torch.is_grad_enabled()),
        "deterministic algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "signal handlers": str({each.name: repr(signal.getsignal(each)) for each in signal.Signals}),
        "working folder": os.getcwd(),
        "start method": str(multiprocessing.get_start_method(allow_none=True)),
        "excepthook": repr(sys.excepthook),
    }


def _look(torch: Any, backend: Any) -> dict[str, object]:
    return {
        "count": repr(backend.device.count()),
        "device": str(torch.device(backend.device.type)),
        "present": repr(backend.present_capabilities()),
    }


def _tell_of_mixed_precision(torch: Any, backend: Any) -> dict[str, str]:
    """Return the problem of ``torch.autocast`` in each dtype that the backend does not deny; empty if it works."""
    claims = backend.present_capabilities().claims()
    found = {}
    for name in ("bfloat16", "float16"):
        if claims[name].denied:
            continue
        dtype = getattr(torch, name)
        try:
            dtypes = backend.device.autocast_dtypes()
            if dtype in dtypes:
                with torch.autocast(backend.device.type, dtype=dtype):
                    on = torch.is_autocast_enabled(backend.device.type)  # for some dtypes torch warns, and turns it off
                found[name] = "" if on else f"torch turns autocast off for {name}"
            else:
                found[name] = f"autocast_dtypes() has no {name}" if claims[name].answer == "yes" else ""
        except Exception as error:  # noqa: BLE001 - whatever a vendor's code raises
            found[name] = f"{type(error).__name__}: {error}"
    return found


def _module_of_torch(torch: Any, backend: Any) -> object:
    """Return torch's module of the chip; the Device's own if torch has none."""
    return getattr(torch, backend.device.type, backend.device.module)


def _changed(before: dict[str, str]) -> dict[str, list[str | None]]:
    """Return each changed variable with both values."""
    names = {name for name, _ in before.items() ^ dict(os.environ).items()}
    return {name: [before.get(name), os.environ.get(name)] for name in sorted(names)}


def _pickle(backend: Any) -> dict[str, list[str]]:
    """Return the pickle of the backend and of each part, or the error."""
    found = {}
    for part in ("backend", "device", "collective", "bridge", "capabilities", "acceleration"):
        value = backend if part == "backend" else getattr(backend, part)
        try:
            found[part] = ["pickle", base64.b64encode(pickle.dumps(value)).decode()]
        except Exception as error:  # noqa: BLE001 - whatever a vendor's object raises
            found[part] = ["error", f"{type(error).__name__}: {error}"]
    return found


DISTRIBUTIONS = ("torch", "lightning", "pytorch-lightning", "lightning-fabric", "torchmetrics", "pytest")
"""The distributions that are reported in addition to those that the backend's contract names."""


def describe(name: str) -> dict[str, object]:
    """Return the facts and claims of the backend ``name``, corrected by its cards, and its loading error, if any."""
    from northbridge.contract import contract_of, version_of

    backend = northbridge.get(name)
    contract: Any = contract_of(backend)
    capabilities, problem, devices, label = backend.capabilities, "", 0, ""
    try:
        northbridge.load(name)
        capabilities = backend.present_capabilities()
        devices = backend.device.count()
        label = backend.device.label(0) if devices else ""
    except Exception as error:  # noqa: BLE001 - told in the report
        problem = f"{type(error).__name__}: {error}"
    distributions = (*DISTRIBUTIONS, *(contract.distributions if contract else ()))
    claims = asdict(capabilities)
    operators = claims.pop("operators")
    versions = {each: found for each in distributions if (found := version_of(each))}
    return {
        "backend": {
            "api": backend.api,
            "device": backend.device.type,
            "collective": backend.collective.name if backend.collective is not None else "",
            "simulated": capabilities.simulated,
            "devices": devices,
            "label": label,
            "problem": problem,
        },
        "capabilities": claims,
        "operators": operators,
        "versions": {"python": platform.python_version(), **versions},
        "variables": [each.name for each in contract.symbols if each.kind == "environment"] if contract else [],
    }


def describe_machine(name: str) -> dict[str, str]:
    """Return the facts of the backend ``name`` about this machine that are one text, such as the driver's version."""
    backend = northbridge.get(name)
    with suppress(northbridge.NorthbridgeError):  # the report has it as the problem
        northbridge.load(name)
    try:
        return {fact: said for fact, said in backend.bridge.describe_machine().items() if isinstance(said, str)}
    except Exception as error:  # noqa: BLE001 - told in the report
        return {"describe_machine()": f"raised {type(error).__name__}: {error}"}


TOO_MUCH = 2**50
"""A number of bytes that no device has."""


def fill_memory(name: str) -> dict[str, Any]:
    """Run out of memory of the backend ``name`` in several ways; return the errors and the state afterwards."""
    import torch
    from torch import nn

    backend = northbridge.load(name)
    chip = backend.device
    backend.bridge.prepare_rank(index=0, local_rank=0, world_size=1)
    chip.select(0)
    device = chip.root(0)
    weights = torch.arange(1000.0, device=device)
    layer = nn.Linear(4, 4).to(device)
    narrow = torch.ones(1, device=device)
    torch.rand(1, device=device)
    chip.synchronize()
    state, before = _random_state(backend), _statistics(backend, device)
    ways: dict[str, Callable[[], Tensor]] = {
        "a new tensor": lambda: torch.empty(TOO_MUCH, dtype=torch.uint8, device=device),
        "a result": lambda: narrow.expand(TOO_MUCH // 4) + 1,
        "a copy": lambda: narrow.expand(TOO_MUCH // 4).clone(),
        "a growing tensor": lambda: torch.empty(0, dtype=torch.uint8, device=device).resize_(TOO_MUCH),
        "the same once more": lambda: torch.empty(TOO_MUCH, dtype=torch.uint8, device=device),
    }
    told = {way: tell(chip, ask) for way, ask in ways.items()}
    wrong_shape = tell(chip, lambda: torch.ones(2, 3, device=device) @ torch.ones(2, 3, device=device))
    chip.synchronize()
    after = _statistics(backend, device)
    chip.empty_cache()
    layer(torch.ones(2, 4, device=device)).sum().backward()
    return {
        "told": told,
        "wrong shape": wrong_shape,
        "intact": weights.cpu().tolist() == list(range(1000)),
        "small": (torch.ones(3, device=device) * 2).tolist(),
        "gradient": None if layer.weight.grad is None else layer.weight.grad.tolist(),
        "drew nothing": torch.equal(_random_state(backend), state),
        # Event counters may change; sizes must be those of before.
        "kept": {name: after[name] - value for name, value in before.items() if after[name] - value >= 2**20},
    }


def _random_state(backend: northbridge.Backend) -> Tensor:
    """Return the state of the generator that the chip draws from."""
    import torch

    denied = backend.present_capabilities().random_numbers.denied
    return torch.get_rng_state() if denied else backend.device.random_state()


def _statistics(backend: northbridge.Backend, device: torch.device) -> dict[str, float]:
    denied = backend.present_capabilities().memory_stats.denied
    return {} if denied else dict(backend.device.memory_stats(device.index))


def tell(chip: northbridge.Device, ask: Callable[[], Tensor]) -> dict[str, Any]:
    """Return the error's class and message after ``ask``, and if the message is a known sign of full memory."""
    import torch

    try:
        found = ask()
        found.flatten()[-1].item()  # a lazy chip makes no tensor before a number of it is read
        chip.synchronize()
    except RuntimeError as error:
        said = str(error)
        known = isinstance(error, torch.OutOfMemoryError) or any(words in said for words in chip.out_of_memory)
        return {"error": type(error).__name__, "said": said, "known": known}
    return {"error": "", "said": f"there was room for {type(found).__name__}", "known": False}
