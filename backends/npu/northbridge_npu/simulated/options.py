"""Switches of the vendor's compiler and matrix unit. They are kept, and change nothing in a simulated run."""

from __future__ import annotations


def set_compile_mode(jit_compile: bool = False) -> None:
    """Choose between operators that are compiled when they run, and those that come with CANN."""


class Config:
    """``torch.npu.config``, whose ``allow_internal_format`` lets weights have the card's own layout."""

    allow_internal_format: bool


class HF32:
    """``torch.npu.matmul`` or ``torch.npu.conv``: ``allow_hf32`` lets float32 be computed with fewer bits."""

    def __init__(self, *, allowed: bool) -> None:
        self._allowed = allowed

    @property
    def allow_hf32(self) -> bool:
        """Return the switch. Setting it raises TypeError for a value that is not a bool."""
        return self._allowed

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"allow_hf32 must be a bool, but got {type(value).__name__}")
        self._allowed = value
