"""Train with PyTorch Lightning on any vendor's accelerator.

The public names, and nothing else. Each is resolved on first use (PEP 562), so that importing this package costs
milliseconds and no module that a plugin needs in order to be declared imports torch, pydantic or Lightning.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from northbridge.backend import API_VERSION, Backend
    from northbridge.bridge import Bridge
    from northbridge.capabilities import Capabilities, Claim, no, unknown, yes
    from northbridge.collective import Collective
    from northbridge.device import Device
    from northbridge.discovery import Plugin, available, get, hookimpl, installed, load
    from northbridge.errors import (
        AmbiguousAcceleratorError,
        BackendConflictError,
        BackendDisabledError,
        BackendError,
        BackendNameError,
        BackendNotFoundError,
        ClusterError,
        CollectiveError,
        DetectionError,
        DevicesError,
        DeviceTypeTakenError,
        FaceError,
        HardwareMissingError,
        NorthbridgeError,
        PluginAPIError,
        PluginError,
        PluginHookError,
        PluginImportError,
        PluginNameError,
        SettingsError,
        SoftwareLoadError,
        SoftwareMissingError,
        UnsupportedError,
        VariableError,
        WrongDeviceError,
    )
    from northbridge.journal import Entry, record
    from northbridge.settings import Settings

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

__all__ = [  # noqa: PLE0604 - computed, so that no name can be missing from it; a test compares it with the imports above
    *sorted(_HOME)
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'northbridge' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
