"""The compiled chip of this process, and its devices' type."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

DeviceLike = torch.device | str | int | None

_installed: tuple[ModuleType, str] | None = None


def place(extension: ModuleType, name: str) -> None:
    """Make `extension` the chip of this process, with devices of the type `name`."""
    global _installed
    _installed = extension, name


def installed_type() -> str | None:
    """Return the type of this process's devices, or None without a chip."""
    return None if _installed is None else _installed[1]


def extension() -> ModuleType:
    """Return the compiled chip."""
    return _chip_and_name()[0]


def structure(extension: ModuleType, kind: str, **fields: object) -> Any:
    """Build a structure of the compiled chip, called `kind`, with these fields."""
    made = getattr(extension, kind)()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _chip_and_name() -> tuple[ModuleType, str]:
    if _installed is None:
        raise RuntimeError("the simulated chip is not loaded. Fix: northbridge.load() it")
    return _installed


def index(device: DeviceLike) -> int:
    """Return the index of `device`; None is the current device.

    Raises RuntimeError for an index that does not exist, ValueError for a device of another type.
    """
    chip, name = _chip_and_name()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != name:
            raise ValueError(f"expected a {name} device, found {str(device)!r}")
        device = device.index
    return int(chip.checked_index(-1 if device is None else device))
