"""Train with PyTorch Lightning on any vendor's accelerator.

The public names, and nothing else. Each is resolved on first use (PEP 562), so that importing this package costs
milliseconds and no module that a plugin needs in order to be declared imports torch, pydantic or Lightning.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from northbridge.backend import API_VERSION as API_VERSION, Backend as Backend
    from northbridge.bridge import Bridge as Bridge
    from northbridge.capabilities import (
        Capabilities as Capabilities,
        Claim as Claim,
        no as no,
        unknown as unknown,
        yes as yes,
    )
    from northbridge.collective import Collective as Collective
    from northbridge.device import Device as Device
    from northbridge.discovery import (
        Plugin as Plugin,
        available as available,
        get as get,
        hookimpl as hookimpl,
        installed as installed,
        load as load,
    )
    from northbridge.errors import (
        AmbiguousAcceleratorError as AmbiguousAcceleratorError,
        BackendConflictError as BackendConflictError,
        BackendDisabledError as BackendDisabledError,
        BackendError as BackendError,
        BackendNameError as BackendNameError,
        BackendNotFoundError as BackendNotFoundError,
        CheckpointError as CheckpointError,
        ClusterError as ClusterError,
        CollectiveError as CollectiveError,
        DetectionError as DetectionError,
        DevicesError as DevicesError,
        DeviceTypeTakenError as DeviceTypeTakenError,
        FaceError as FaceError,
        HardwareMissingError as HardwareMissingError,
        NorthbridgeError as NorthbridgeError,
        PluginAPIError as PluginAPIError,
        PluginError as PluginError,
        PluginHookError as PluginHookError,
        PluginImportError as PluginImportError,
        PluginNameError as PluginNameError,
        SettingsError as SettingsError,
        SoftwareLoadError as SoftwareLoadError,
        SoftwareMissingError as SoftwareMissingError,
        UnsupportedError as UnsupportedError,
        VariableError as VariableError,
        WrongDeviceError as WrongDeviceError,
    )
    from northbridge.journal import Entry as Entry, record as record
    from northbridge.settings import Settings as Settings


_HOMES = {
    "northbridge.backend": ("API_VERSION", "Backend"),
    "northbridge.bridge": ("Bridge",),
    "northbridge.capabilities": ("Capabilities", "Claim", "no", "unknown", "yes"),
    "northbridge.collective": ("Collective",),
    "northbridge.device": ("Device",),
    "northbridge.discovery": ("Plugin", "available", "get", "hookimpl", "installed", "load"),
    "northbridge.errors": (
        "AmbiguousAcceleratorError",
        "BackendConflictError",
        "BackendDisabledError",
        "BackendError",
        "BackendNameError",
        "BackendNotFoundError",
        "CheckpointError",
        "ClusterError",
        "CollectiveError",
        "DetectionError",
        "DeviceTypeTakenError",
        "DevicesError",
        "FaceError",
        "HardwareMissingError",
        "NorthbridgeError",
        "PluginAPIError",
        "PluginError",
        "PluginHookError",
        "PluginImportError",
        "PluginNameError",
        "SettingsError",
        "SoftwareLoadError",
        "SoftwareMissingError",
        "UnsupportedError",
        "VariableError",
        "WrongDeviceError",
    ),
    "northbridge.journal": ("Entry", "record"),
    "northbridge.settings": ("Settings",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]  # the imports above say the same to it


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'northbridge' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
