"""How a function of torch is replaced."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

from northbridge_hpu.simulated.record import recorded


def put(name: str, function: Callable[..., Any]) -> None:
    """Put ``function`` in the place of what stands under the dotted ``name``, and there alone."""
    owner, _, attribute = name.rpartition(".")
    setattr(resolve_name(owner), attribute, recorded(name, function))
