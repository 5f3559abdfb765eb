"""The functions of ``torch.hpu`` about autocast, which are torch's own for this device type."""

from __future__ import annotations

import torch


def is_autocast_hpu_enabled() -> bool:
    """Return True inside of ``torch.autocast("hpu")``."""
    return torch.is_autocast_enabled("hpu")


def set_autocast_hpu_enabled(enabled: bool) -> None:
    """Switch autocast on or off for this thread."""
    torch.set_autocast_enabled("hpu", enabled)


def get_autocast_hpu_dtype() -> torch.dtype:
    """Return the dtype of autocast."""
    return torch.get_autocast_dtype("hpu")


def set_autocast_hpu_dtype(dtype: torch.dtype) -> None:
    """Set the dtype of autocast."""
    torch.set_autocast_dtype("hpu", dtype)
