"""The compiled chip of this process, and what its devices are called."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

DeviceLike = torch.device | str | int | None

_installed: tuple[ModuleType, str] | None = None


def place(extension: ModuleType, name: str) -> None:
    """Make `extension` the chip of this process, whose devices are called `name`."""
    global _installed
    _installed = extension, name


def installed_type() -> str | None:
    """Give what this process's devices are called, or None where it has no chip."""
    return None if _installed is None else _installed[1]


def extension() -> ModuleType:
    """Give the compiled chip."""
    return _chip_and_name()[0]


def structure(extension: ModuleType, kind: str, **fields: object) -> Any:
    """Give a structure of the compiled chip's, called `kind`, with these fields."""
    made = getattr(extension, kind)()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _chip_and_name() -> tuple[ModuleType, str]:
    if _installed is None:
        raise RuntimeError("the simulated chip is not loaded. Fix: northbridge.load() it")
    return _installed


def index(device: DeviceLike) -> int:
    """Give the index that `device` means; None is the current one.

    Raises RuntimeError for an index that is not there, ValueError for a device of another type.
    """
    chip, name = _chip_and_name()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != name:
            raise ValueError(f"expected a {name} device, found {str(device)!r}")
        device = device.index
    return int(chip.checked_index(-1 if device is None else device))
