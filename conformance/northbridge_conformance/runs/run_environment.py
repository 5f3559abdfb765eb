"""The environment of the processes that the suite starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

_OF_LAUNCHERS = ("SLURM_", "TORCHELASTIC_", "JSM_", "LSB_", "OMPI_", "PMI_", "_NORTHBRIDGE_LAUNCHER")
_OF_RANKS = frozenset(
    {
        "GROUP_RANK",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NODE_RANK",
        "PL_GLOBAL_SEED",
        "RANK",
        "WORLD_SIZE",
    }
)

_OF_OTHERS = (
    "LD_",
    "NORTHBRIDGE_",
    "OMP_",
    "PYTHON",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
)
"""The beginnings of variables that Python, the linker, torch and its libraries read."""

ONE_THREAD: Mapping[str, str] = MappingProxyType({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
"""One thread for each rank: launchers differ in this number, and a sum's last bit may depend on it. Also, a process
whose imports left threads cannot be forked.
"""

inherited: ContextVar[Mapping[str, str]] = ContextVar("inherited", default=os.environ)
"""The environment that the processes of a run inherit.

A thread that runs beside the tests sets a copy: a test may change this process's, for example to select a card.
"""


def tells_of_a_launcher(variable: str) -> bool:
    """Return True if a launcher sets ``variable`` in its processes; the suite starts its own ranks."""
    return variable in _OF_RANKS or variable.startswith(_OF_LAUNCHERS)


def is_read_by_others(variable: str) -> bool:
    """True if software other than the vendor's reads ``variable``: in each process that inherits it, too."""
    return variable.startswith(_OF_OTHERS)


def environ_of_runs() -> dict[str, str]:
    """Return the inherited environment in the form that the suite's processes get."""
    kept = {key: value for key, value in inherited.get().items() if not tells_of_a_launcher(key)}
    return {**kept, **ONE_THREAD}
