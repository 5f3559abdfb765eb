"""What mpiexec tells each process: the variables of PALS, Open MPI, MVAPICH, PMI and PMIx.

Reading them needs neither MPI nor mpi4py. A process may have the variables of several launchers: PALS and srun set
those of PMI beside their own, and Open MPI sets those of PMIx.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from northbridge.errors import ClusterError
from northbridge.untrusted.text import shorten

# PALS: HPE's mpiexec, and Slurm's plugin mpi/cray_shasta; neither sets a size of the world. Open MPI:
# docs.open-mpi.org, "Environment variables set for MPI applications"; its NODE_RANK counts processes, not nodes.
# MVAPICH2: its user guide. PMI: Hydra of MPICH and Intel MPI (MPI_LOCAL…), and cray-pmi (PMI_LOCAL_…).
# PMIx: the environment has the rank and the namespace; other numbers need its library.
VARIABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "PALS": {
        "rank": ("PALS_RANKID",),
        "local_rank": ("PALS_LOCAL_RANKID",),
        "local_size": ("PALS_LOCAL_SIZE",),
        "node_rank": ("PALS_NODEID",),
    },
    "Open MPI": {
        "rank": ("OMPI_COMM_WORLD_RANK",),
        "world_size": ("OMPI_COMM_WORLD_SIZE",),
        "local_rank": ("OMPI_COMM_WORLD_LOCAL_RANK",),
        "local_size": ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    },
    "MVAPICH": {
        "rank": ("MV2_COMM_WORLD_RANK",),
        "world_size": ("MV2_COMM_WORLD_SIZE",),
        "local_rank": ("MV2_COMM_WORLD_LOCAL_RANK",),
        "local_size": ("MV2_COMM_WORLD_LOCAL_SIZE",),
    },
    "PMI": {
        "rank": ("PMI_RANK",),
        "world_size": ("PMI_SIZE",),
        "local_rank": ("PMI_LOCAL_RANK", "MPI_LOCALRANKID"),
        "local_size": ("PMI_LOCAL_SIZE", "MPI_LOCALNRANKS"),
    },
    "PMIx": {"rank": ("PMIX_RANK",)},
}
"""The variables of each launcher, by what they say."""


@dataclass(frozen=True)
class Said:
    """One number that one launcher has set."""

    launcher: str
    field: str
    variable: str
    value: int

    def __str__(self) -> str:
        return f"{self.variable}='{self.value}'"


def starts_ranks(environ: Mapping[str, str]) -> bool:
    """Return True if mpiexec has started this process as one of several.

    False if srun has started it, which may set the variables of PMI or PALS itself. Raises :class:`ClusterError` if the
    variables contradict each other.
    """
    said = read(environ)
    if not any(each.field == "rank" for each in said) or _is_sruns(environ, said):
        return False
    reject_contradiction(said)
    return {each.value for each in said if each.field == "world_size"} != {1}


def read(environ: Mapping[str, str]) -> list[Said]:
    """Return all numbers that launchers have set. Raises :class:`ClusterError` if a text is not a number."""
    return [
        Said(launcher, field, variable, read_number(variable, environ[variable]))
        for launcher, fields in VARIABLES.items()
        for field, variables in fields.items()
        for variable in variables
        if variable in environ
    ]


def read_number(variable: str, text: str) -> int:
    """Return ``text`` as a number. Raises :class:`ClusterError` about ``variable`` if it is not one."""
    try:
        return int(text)
    except ValueError:
        found = f"{variable}={shorten(text)!r} on {host()} is not a number"
        raise ClusterError(f"{found}. Fix: unset it", variable=variable) from None


def host() -> str:
    """Return the name of this machine, for a message."""
    return f"host {socket.gethostname()}"


def reject_contradiction(said: list[Said]) -> None:
    """Raise :class:`ClusterError` if two launchers say different numbers, and name the one that most contradict."""
    for field in dict.fromkeys(each.field for each in said):
        here = [each for each in said if each.field == field]
        (value, most), *others = Counter(each.value for each in here).most_common()
        if not others:
            continue
        wrong = next(each for each in here if each.value != value)
        right = next(each for each in here if each.value == value)
        if most > others[0][1] and wrong.launcher != right.launcher:
            raise _left_over(wrong, str(right), said)
        owners = " or ".join(dict.fromkeys((right.launcher, wrong.launcher)))
        found = f"{wrong} contradicts {right} on {host()}: one is left over"
        fix = f"unset the variables of {owners}, whichever did not start this process"
        raise ClusterError(f"{found}. Fix: {fix}", variable=wrong.variable)


def _left_over(wrong: Said, right: str, said: list[Said]) -> ClusterError:
    stale = " ".join(each.variable for each in said if each.launcher == wrong.launcher)
    found = f"{wrong} contradicts {right} on {host()}: {wrong.launcher}'s is left over"
    return ClusterError(f"{found}. Fix: unset {stale}", variable=wrong.variable)


def _is_sruns(environ: Mapping[str, str], said: list[Said]) -> bool:
    # In a job of SLURM, mpiexec starts the ranks by a daemon on each node, which srun starts, or from the job's script.
    # SLURM's numbers are those of that daemon or script then, and may differ from those of mpiexec.
    if not {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"} <= environ.keys():
        return False
    nodes = read_number("SLURM_STEP_NUM_NODES", environ.get("SLURM_STEP_NUM_NODES", "1"))
    sruns = {"rank": "SLURM_PROCID", "world_size": "SLURM_STEP_NUM_TASKS"}
    numbers = {field: read_number(variable, environ[variable]) for field, variable in sruns.items()}
    differing = [each for each in said if each.value != numbers.get(each.field, each.value)]
    if differing and numbers["world_size"] > nodes:
        variable = sruns[differing[0].field]
        raise _left_over(differing[0], f"{variable}={environ[variable]!r}", said)
    return not differing
