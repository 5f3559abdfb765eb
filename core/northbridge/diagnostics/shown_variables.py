"""Which variables' values a report and the doctor tell: both leave the machine, and a variable may hold a token."""

from __future__ import annotations

from collections.abc import Collection

from northbridge.launch.environment import VARIABLES
from northbridge.settings import CoreSettings

HIDDEN = "(not shown)"
"""Stands for the value of any other variable."""

_OF_TORCH = (
    "OMP_NUM_THREADS",
    "TORCH_CPP_LOG_LEVEL",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_SHOW_CPP_STACKTRACES",
)
_OF_LAUNCHERS = ("MASTER_ADDR", "MASTER_PORT", *(name for names in VARIABLES.values() for name in names if name))

SHOWN = frozenset({*map(CoreSettings.variable, CoreSettings.model_fields), *_OF_TORCH, *_OF_LAUNCHERS})
"""The names. The page about the doctor lists them."""


def tell_value(name: str, value: str, also: Collection[str] = ()) -> str:
    """Return ``value`` where ``name`` is one of :data:`SHOWN` or of ``also``, and else :data:`HIDDEN`."""
    return value if name in SHOWN or name in also else HIDDEN
