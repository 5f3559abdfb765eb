"""The environment of the processes that the suite starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
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


ONE_THREAD: Mapping[str, str] = MappingProxyType({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
"""Launchers differ in the threads that they give a rank, and a sum's last bit may depend on the threads. And a process
that its imports have left with threads cannot be forked.
"""


def tells_of_a_launcher(variable: str) -> bool:
    """Whether a launcher leaves ``variable`` in the environment of its processes; the suite starts ranks of its own."""
    return variable in _OF_RANKS or variable.startswith(_OF_LAUNCHERS)


def environ_of_runs() -> dict[str, str]:
    """Return this process's environment as the processes get it that the suite starts."""
    inherited = {key: value for key, value in os.environ.items() if not tells_of_a_launcher(key)}
    return {**inherited, **ONE_THREAD}
