"""Casts to float64, of which the vendor's software makes casts to float32."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import torch

_libraries: list[Any] = []
"""A library that is collected takes its operator along."""


def register() -> None:
    """Let casts on the chip do so; a repeated call does nothing."""
    if not _libraries:
        library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]  # torch's
        library.impl("_to_copy", _to_copy, "PrivateUse1")
        _libraries.append(library)


def _to_copy(tensor: torch.Tensor, **options: Any) -> torch.Tensor:
    """Copy as torch does, but in float32 where float64 is all that is asked: with a device, float64 stays."""
    if options.get("dtype") is torch.float64 and options.get("layout") is options.get("device") is None:
        _warn_once()
        options["dtype"] = torch.float32
    operator: Any = torch.ops.aten._to_copy.default
    copied: torch.Tensor = operator._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, tensor, **options)
    return copied


@cache
def _warn_once() -> None:
    print("Warning: NPUs do not compute float64: this cast gives float32.", file=sys.stderr, flush=True)
