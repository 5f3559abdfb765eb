"""Decisions of Lightning's connector if the accelerator is ours.

A connector turns a user's arguments into accelerator, strategy and precision. Each function here replaces one of its
methods. ``corrections/table.py`` installs them, and calls the original if the accelerator is not ours.
"""

from __future__ import annotations

import difflib
from typing import Any

import torch

from northbridge.backend import Backend, reject_denied
from northbridge.device import is_renamed
from northbridge.discovery.current import loaded
from northbridge.discovery.declared import keep
from northbridge.discovery.installed import LIGHTNING_NAMES, names
from northbridge.errors import DevicesError, DeviceTypeTakenError, UnsupportedError
from northbridge.launch.cluster import check_slurm
from northbridge.lightning.accelerators.accelerator import is_our_class, is_ours, load_with_hardware
from northbridge.lightning.accelerators.cpu import CPU
from northbridge.lightning.classes import classes
from northbridge.lightning.connector.choices import detects_slurm
from northbridge.lightning.connector.conversion import convert_arguments
from northbridge.lightning.connector.registry import Alias, claim_name, drives_a_chip_by_itself, tell_of_predecessors
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.precision import reject_float8_word, reject_precision
from northbridge.lightning.strategies.deepspeed_accelerator import reject_missing
from northbridge.lightning.strategies.unsupported import ONE_PROCESS
from northbridge.lightning.strategies.user_classes import derive

_UNSUPPORTED = {
    "dp": (("dp", "DataParallelStrategy"), ONE_PROCESS),
    "xla": (
        ("xla", "single_xla", "XLAStrategy", "SingleDeviceXLAStrategy", "XLAFSDPStrategy"),
        "it is for XLA devices",
    ),
}
"""Strategies that cannot run on our chips: the first words of Lightning's names, the classes, and the reason."""


def read_arguments(namespace: Namespace, arguments: dict[str, Any]) -> tuple[Backend, int] | None:
    """Correct and check the user's arguments in place, before Lightning reads them.

    An object of ours from another namespace is converted. An unknown name is our error. For a name of ours, the
    hardware is detected and the software loaded here, so that their errors come first. Returns the backend and the
    number of its devices, or None if the arguments name no backend.
    """
    convert_arguments(namespace, arguments)
    if _is_mixed(namespace, arguments["strategy"]):
        arguments["accelerator"] = _choose_for_mixed_job(namespace, arguments["accelerator"])
    accelerator, strategy = arguments["accelerator"], arguments["strategy"]
    if isinstance(strategy, str) and accelerator == "auto":
        arguments.update(accelerator=_backend_of_strategy(strategy) or "auto")
        accelerator = arguments["accelerator"]
    if is_ours(accelerator):
        name = accelerator.backend_name
    elif isinstance(accelerator, str):
        name = accelerator
        if name in LIGHTNING_NAMES or _belongs_to_another_package(namespace, name) or _resembles_lightning_name(name):
            return None
    else:
        return None
    if detects_slurm(namespace, arguments.get("plugins")):
        check_slurm()
    backend, count = (CPU, 1) if name == CPU.name else load_with_hardware(name)
    reject_strategy(namespace, backend, strategy)
    if strategy == "single_device":
        arguments["strategy"] = f"single_{name}"  # a Fabric has no strategy of the generic name
    if arguments.get("precision") is not None:
        reject_float8_word(backend, arguments["precision"])
        unified = namespace.fabric_module("connector")._convert_precision_to_unified_args
        reject_precision(backend, unified(arguments["precision"]))
    return backend, count


def _is_mixed(namespace: Namespace, strategy: Any) -> bool:
    """Return True for a strategy of several vendors' chips that does not name its accelerator itself."""
    if isinstance(strategy, str):
        registry, word = namespace.strategy_registry, strategy.lower()
        registered = registry[word]["strategy"] if word in registry else None
        return isinstance(registered, type) and issubclass(registered, classes(namespace).mixed_ddp)
    return isinstance(strategy, classes(namespace).mixed_ddp) and strategy._accelerator is None


def _choose_for_mixed_job(namespace: Namespace, accelerator: Any) -> Any:
    """Return the accelerator of this node in a mixed job: the choice of ``auto``, and ours for the CPU.

    Raises :class:`UnsupportedError` for another one of Lightning's.
    """
    if accelerator == "auto":
        accelerator = getattr(namespace.connector, namespace.connector_class)._choose_auto_accelerator()
    if accelerator == "cpu" or isinstance(accelerator, namespace.module("accelerators").CPUAccelerator):
        keep(CPU)
        return classes(namespace).accelerator(CPU.name)
    stock = isinstance(accelerator, namespace.module("accelerators").Accelerator) and not is_ours(accelerator)
    if stock or accelerator in LIGHTNING_NAMES:
        name = type(accelerator).__name__ if stock else repr(accelerator)
        raise UnsupportedError(
            f"accelerator={name}: 'ddp_mixed' trains on Northbridge's backends and the CPU. Fix: another strategy=",
            capability="strategy",
        )
    return accelerator


def _backend_of_strategy(strategy: str) -> str | None:
    """Return the backend that a strategy such as ``ddp_acme_spawn`` is registered for."""
    words = strategy.lower()
    if not words.startswith(("single_", "ddp_")):
        return None  # reading all metadata takes as long as the rest of a Trainer
    longest_first = sorted(names(), key=len, reverse=True)
    return next(
        (name for name in longest_first if words == f"single_{name}" or f"{words}_".startswith(f"ddp_{name}_")),
        None,
    )


def _belongs_to_another_package(namespace: Namespace, name: str) -> bool:
    owner = namespace.owner(name)
    return owner is not None and not is_our_class(owner) and not claim_name(namespace, name)


def _resembles_lightning_name(name: str) -> bool:
    """Return True if an unknown ``name`` looks most like one of Lightning's own, so that Lightning should report it."""
    # A narrow cutoff: a vendor's three letters are not a misspelt "cpu".
    if not difflib.get_close_matches(name.lower(), LIGHTNING_NAMES, n=1, cutoff=0.75):
        return False  # without the names that are announced: reading them takes as long as the rest of a Trainer
    announced = names()
    if name in announced:
        return False
    near = difflib.get_close_matches(name.lower(), [*announced, *LIGHTNING_NAMES], n=1, cutoff=0.75)
    return bool(near) and near[0] in LIGHTNING_NAMES


def reject_strategy(namespace: Namespace, backend: Backend, strategy: Any) -> None:
    """Raise :class:`UnsupportedError`, with the line to write instead, for a strategy that cannot run on a chip."""
    name = backend.name
    is_its_own = strategy == f"single_{name}"
    other = _backend_of_strategy(strategy) if isinstance(strategy, str) and not is_its_own else None
    if other not in (None, name):
        raise UnsupportedError(
            f"strategy={strategy!r} is for {other!r}, not {name!r}. Fix: leave strategy= out, or write"
            f" accelerator={other!r}",
            capability="strategy",
        )
    word = strategy.lower() if isinstance(strategy, str) else type(strategy).__name__
    asked = {word} if isinstance(strategy, str) else {each.__name__ for each in type(strategy).__mro__}
    if "DeepSpeedStrategy" in asked or (isinstance(strategy, str) and word.startswith("deepspeed")):
        reject_missing(backend, f"strategy={word!r}", f"{namespace.host}(accelerator={name!r}, strategy='ddp')")
    for kind, (words, reason) in _UNSUPPORTED.items():
        if asked.intersection(words) or (isinstance(strategy, str) and word.startswith((f"{kind}_", f"{kind}-"))):
            raise UnsupportedError(
                f"strategy={word!r} cannot run on {name!r}: {reason}."
                f" Fix: {namespace.host}(accelerator={name!r}, strategy='ddp')",
                capability=f"strategy {kind}",
            )


def choose_strategy(namespace: Namespace, connector: Any) -> str:
    """Return the name of the strategy for ``strategy="auto"``."""
    if len(connector._parallel_devices) > 1 or connector._num_nodes_flag > 1:
        return "ddp_fork" if namespace.connector._IS_INTERACTIVE else "ddp"
    return f"single_{connector.accelerator.backend_name}"


def build_strategy(namespace: Namespace, connector: Any) -> Any:
    """Build our strategy for the flag in ``connector``: a registered name, or an object of the user's.

    A stock strategy gets our class in place: it keeps the user's arguments and stays the same object.
    """
    ours = classes(namespace)
    flag: Any = connector._strategy_flag
    name = connector.accelerator.backend_name
    tell_of_predecessors(namespace, name)
    if getattr(connector, "_layer_sync", None) is not None:
        _settle_layer_sync(namespace, connector)
    if isinstance(flag, str):
        entry = namespace.strategy_registry[flag]
        registered = entry["strategy"]
        if isinstance(registered, Alias):  # from code that patched Lightning: a user's alias is resolved by now
            kind = registered().kind
            registered = next(each for each in ours.strategies if each.__name__ == kind)
        for kind in (ours.deepspeed, ours.ddp, ours.fsdp):
            if issubclass(registered, kind.stock_class):
                return derive(registered, kind)(**entry["init_params"])
        if issubclass(registered, ours.single_device.stock_class):
            return _build_single(derive(registered, ours.single_device), connector)
    for kind in ours.strategies:
        if isinstance(flag, kind.stock_class) and not drives_a_chip_by_itself(type(flag)):
            if kind is ours.single_device:
                connector.accelerator.reject_foreign(connector._strategy_flag.root_device)
            flag.__class__ = derive(type(flag), kind)
            return flag
    word = repr(flag) if isinstance(flag, str) else type(flag).__name__
    raise UnsupportedError(
        f"strategy={word} is not known to run on {name!r}. Fix: strategy='ddp', or derive it from"
        f" {namespace.home}.DDPStrategy",
        capability="strategy",
    )


def _settle_layer_sync(namespace: Namespace, connector: Any) -> None:
    """Replace torch's layers, which need GPU kernels, by ours; a user's own plugin stays.

    Raises :class:`UnsupportedError` if the chip does not support it, or if Lightning would ignore it.
    """
    backend = connector.accelerator.backend
    what = f"{backend.name!r} does not support sync_batchnorm=True"
    reject_denied(backend, "sync_batchnorm", what, "leave it out")
    ours = classes(namespace)
    flag: Any = connector._strategy_flag
    kind = namespace.strategy_registry[flag]["strategy"] if isinstance(flag, str) else type(flag)
    candidates = (ours.model_parallel, ours.deepspeed) if isinstance(kind, type) else ()
    sharded = next((each for each in candidates if issubclass(kind, each.stock_class)), None)
    if sharded is not None:
        raise UnsupportedError(
            f"{sharded.__name__} ignores sync_batchnorm=True. Fix: call SyncBatchNorm.convert_sync_batchnorm()"
            " in configure_model()",
            capability="sync_batchnorm",
        )
    if type(connector._layer_sync) is namespace.module("plugins.layer_sync").TorchSyncBatchNorm:
        connector._layer_sync = ours.layer_sync(backend.name)


def _build_single(single_device: Any, connector: Any) -> Any:
    devices = connector._parallel_devices
    if len(devices) != 1:
        raise DevicesError(
            f"strategy={connector._strategy_flag!r} needs one device, but devices= selects {len(devices)}."
            " Fix: devices=1 or strategy='ddp'"
        )
    if connector._num_nodes_flag > 1:
        raise DevicesError(
            f"strategy={connector._strategy_flag!r} cannot span num_nodes={connector._num_nodes_flag}."
            " Fix: strategy='ddp'"
        )
    return single_device(device=devices[0])


def reject_mixture(namespace: Namespace, connector: Any) -> None:
    """Raise if a run that is not ours would use our strategy, or a process that already runs on a chip."""
    strategy, ours = connector.strategy, classes(namespace)
    if isinstance(strategy, ours.strategies):
        name = connector.accelerator.name()
        raise UnsupportedError(
            f"{type(strategy).__name__} of Northbridge does not run on accelerator={name!r}. Fix: name a backend there",
            capability="strategy",
        )
    first = loaded()
    if first is None:
        return
    name = connector.accelerator.name()
    types = {getattr(device, "type", name) for device in connector._parallel_devices}
    if name == first.device.type and not is_renamed(name):
        return  # the vendor's backend serves, under its own name, a device type that torch and Lightning also serve
    if first.device.type in types:
        raise UnsupportedError(
            f"accelerator={name!r}, but the strategy has devices of {first.name!r}. Fix: accelerator={first.name!r}",
            capability="strategy",
        )
    # Compared by device type, not by the accelerator's name: a user's own accelerator may drive the CPU.
    if any(type_ != "cpu" and _may_be_here(type_) for type_ in types):
        raise DeviceTypeTakenError(
            f"cannot use {name!r}: torch already runs on {first.name!r} in this process. Fix: use another process",
            backend=first.name,
        )


def _may_be_here(type_: str) -> bool:
    """Return True if this machine may have devices of a type. Types that torch cannot count may be here."""
    try:
        count = getattr(torch.get_device_module(type_), "device_count", None)
    except RuntimeError:
        return True
    return count is None or count() > 0


def is_fsdp(namespace: Namespace, strategy: Any) -> bool:
    """Return True if ``strategy``, a registered name or an object, is torch's FSDP: Lightning has it for CUDA alone."""
    stock, registry = classes(namespace).fsdp.stock_class, namespace.strategy_registry
    if isinstance(strategy, str):
        registered = registry[strategy]["strategy"] if strategy in registry else None
        return isinstance(registered, type) and issubclass(registered, stock)
    return isinstance(strategy, stock)
