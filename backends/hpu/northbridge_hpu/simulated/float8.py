"""The float8 of the simulated cards: rounding by torch's own dtypes, within the range of the generation."""

from __future__ import annotations

import torch

from northbridge_hpu.simulated.machine import generation

_E4M3_OF_GAUDI2 = 240.0
"""The largest e4m3 there; torch's float8_e4m3fn, and that of the third generation, end at 448."""


def largest(dtype: torch.dtype) -> float:
    """Return the largest number of the card's form of ``dtype``."""
    if dtype is torch.float8_e4m3fn and generation().number == 2:
        return _E4M3_OF_GAUDI2
    return torch.finfo(dtype).max


def to_float8(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round ``tensor`` to ``dtype``; what is beyond its range becomes its largest number."""
    end = largest(dtype)
    return tensor.clamp(-end, end).to(dtype)
