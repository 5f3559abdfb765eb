"""*Loaded*: the vendor's software is imported in this process, and torch knows the device."""

from __future__ import annotations

import os
import sys
import warnings
from importlib.machinery import PathFinder

from northbridge import flight_recorder
from northbridge.autoload import arm, is_armed
from northbridge.backend import Backend
from northbridge.contract import contract_of, reject_broken
from northbridge.discovery.current import loaded, note_loaded, note_put_into_torch, seeded_when_loaded
from northbridge.discovery.installed import describe, names
from northbridge.discovery.simulated import change_torch, is_simulable
from northbridge.discovery.torch_changes import (
    average_integers_one_by_one,
    do_without_nested_tensors,
    keep_parameters_when_moved,
)
from northbridge.errors import (
    ClusterError,
    DeviceTypeTakenError,
    NorthbridgeError,
    SoftwareLoadError,
    SoftwareMissingError,
)
from northbridge.process_record import note
from northbridge.processes.endings import describe_error


def load(backend: Backend) -> Backend:
    """Load the software of ``backend``, once per process, and return it; torch knows its device from then on.

    Acquires no card. Raises :class:`SoftwareMissingError`, :class:`SoftwareLoadError`, or
    :class:`DeviceTypeTakenError` if this process has loaded another backend.
    """
    _bring_up(backend)
    if not is_armed():  # torch's autoload was off: from here on, Trainers of this process know the name
        arm()
    return backend


def _bring_up(backend: Backend) -> None:
    first = loaded()
    if first is not None:
        if first.name != backend.name:
            raise DeviceTypeTakenError(
                f"cannot load {backend.name!r}: torch already runs on {first.name!r} in this process. Fix:"
                " use another process",
                backend=backend.name,
            )
        return
    _reject_foreign_device_type(backend)
    flight_recorder.arm()
    with seeded_when_loaded(backend):
        _load(backend)
    _reject_to_pass_for_cuda(backend)
    keep_parameters_when_moved(backend.device.type)
    do_without_nested_tensors(backend.device.type)
    average_integers_one_by_one()
    note_loaded(backend)
    if backend.capabilities.simulated:
        _warn_of_hidden_hardware(backend)
    note(backend.name, "loaded", f"torch.device({backend.device.type!r}) is real in this process")


def reject_missing_software(backend: Backend) -> None:
    """Raise :class:`SoftwareMissingError` if the bridge of ``backend`` says that its software is missing."""
    missing = backend.bridge.missing()
    if missing is not None:
        raise SoftwareMissingError(_say_missing(backend, missing), backend=backend.name)


def _say_missing(backend: Backend, missing: str) -> str:
    fix = "" if "Fix:" in missing else ". Fix: install the vendor's package"
    offered = is_simulable(backend.name) and not backend.capabilities.simulated
    simulate = f", or set NORTHBRIDGE_SIMULATE={backend.name}" if offered else ""
    return f"{describe(backend.name)}: {missing}{fix}{simulate}"


def _reject_foreign_device_type(backend: Backend) -> None:
    import torch

    name = torch._C._get_privateuse1_backend_name()
    if name not in ("privateuseone", backend.device.type):
        raise DeviceTypeTakenError(
            f"cannot load {backend.name!r}: torch already runs on {name!r} in this process. Fix: use"
            " another process; if torch loads it by itself, set TORCH_DEVICE_BACKEND_AUTOLOAD=0",
            backend=backend.name,
        )

    others = [other for other in names() if other != backend.name and _has_registered_module(other)]
    if others:
        raise DeviceTypeTakenError(
            f"cannot load {backend.name!r}: this process has imported the software of {others[0]!r}. Fix:"
            " use another process",
            backend=backend.name,
        )


def _has_registered_module(name: str) -> bool:
    # A vendor whose chip has its own name in torch registers its module on import. Modules of torch itself, such as
    # torch.cuda, exist in every process.
    import torch

    return f"torch.{name}" in sys.modules and PathFinder.find_spec(f"torch.{name}", torch.__path__) is None


def _load(backend: Backend) -> None:
    import torch

    in_place = torch.save, torch.load
    try:
        reject_missing_software(backend)
        backend.bridge.check_environment()
        backend.bridge.prepare()
        change_torch(backend.name)
        _import_software(backend)
        note_put_into_torch(*(each for each in (torch.save, torch.load) if each not in in_place))
        _check_device_type(backend)
        contract = contract_of(backend, who=describe(backend.name))
        if contract is not None:
            reject_broken(contract)
        if backend.collective is not None:
            backend.collective.register()
    except (NorthbridgeError, KeyboardInterrupt):
        raise
    except ModuleNotFoundError as error:
        missing = f"its software is not installed: {describe_error(error)}"
        raise SoftwareMissingError(_say_missing(backend, missing), backend=backend.name) from error
    except BaseException as error:  # SystemExit too, and a panic in Rust
        _blame_environment(error)
        raise SoftwareLoadError(
            f"{describe(backend.name)}: its software failed to load: {describe_error(error)}. Fix: match"
            " it to this torch and driver",
            backend=backend.name,
        ) from error


_first_failures: dict[str, str] = {}
"""What ended the first import of each backend's software, which may have left half of it behind."""


def _import_software(backend: Backend) -> None:
    try:
        backend.bridge.load()
    except BaseException as error:
        found = describe_error(error)
        first = _first_failures.setdefault(backend.name, found)
        if found == first or isinstance(error, KeyboardInterrupt):
            raise
        raise SoftwareLoadError(
            f"{describe(backend.name)}: its software failed to load again: {found}; the first time: {first}. Fix:"
            " use another process",
            backend=backend.name,
        ) from error
    _first_failures.pop(backend.name, None)


def _blame_environment(error: BaseException) -> None:
    """Raise :class:`ClusterError` if a launcher's variable that vendors' imports read is not a number."""
    from northbridge.launch.environment import LaunchEnvironment

    try:
        _ = LaunchEnvironment.of_unknown_run(os.environ).values
    except ClusterError as reason:
        raise reason from error


def _check_device_type(backend: Backend) -> None:
    import torch

    try:
        torch.device(backend.device.type)
        _ = backend.device.module
    except RuntimeError as error:
        raise SoftwareLoadError(
            f"{describe(backend.name)}: torch has no device {backend.device.type!r} after Bridge.load():"
            f" {str(error).splitlines()[0]}. Fix: import the torch plugin there",
            backend=backend.name,
        ) from error


def _reject_to_pass_for_cuda(backend: Backend) -> None:
    import torch

    if torch.version.cuda is None and torch.version.hip is None and torch.cuda.is_available():
        raise SoftwareLoadError(
            f"{describe(backend.name)}: torch.cuda works without CUDA: a migration shim is active. Fix:"
            " remove its import or variable",
            backend=backend.name,
        )


def _warn_of_hidden_hardware(backend: Backend) -> None:
    import torch
    from torch._C._autograd import DeviceType

    own = backend.device.type
    kinds = [kind.lower() for kind in DeviceType.__members__ if kind not in ("CPU", "PrivateUse1")]
    asked = {kind: getattr(getattr(torch, kind, None), "is_available", None) for kind in kinds if kind != own}
    real = [kind for kind, is_available in asked.items() if is_available is not None and is_available()]
    if real:
        lost = " or ".join(real)
        warnings.warn(
            f"{backend.name!r} is simulated, and this process can no longer train on {lost}: torch serves"
            " one accelerator per process",
            stacklevel=4,
        )
