"""The place of a process among the ranks of mpiexec, and where the ranks of a cluster's job meet.

The place is read from the variables of PALS, Open MPI, MVAPICH, PMI and PMIx, which needs neither MPI nor mpi4py. A
process may have the variables of several launchers: PALS and srun set those of PMI beside their own, and Open MPI sets
those of PMIx.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from northbridge.errors import ClusterError
from northbridge.launch.node_list import PBS_FILE, SLURM_LISTS, NodeList
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

JOB_IDS = ("PBS_JOBID", "SLURM_JOB_ID", "LSB_JOBID")
DEFAULT_PORT = 29500
"""The port outside a job: that of torchrun."""

_FIRST_PORT = 15000  # as Lightning's SLURMEnvironment, so that a job has one port however its ranks are started
_FIX = "export MASTER_ADDR=<the address of rank 0's node>"


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


@dataclass(frozen=True)
class Place:
    """The numbers of one process, all of them known."""

    rank: int
    world_size: int
    local_rank: int
    node_rank: int


def find_place(environ: Mapping[str, str], nodes: int, devices: int) -> Place:
    """Return the place of this process in a run of ``nodes`` times ``devices`` ranks.

    Numbers that no launcher has set follow from the others and from the job's list of nodes. Raises
    :class:`ClusterError` if the numbers contradict each other or the run, or do not suffice.
    """
    said = read(environ)
    reject_contradiction(said)
    numbers = {each.field: each for each in reversed(said)}
    start = f"start with `mpiexec -n {nodes * devices}`, {devices} on each node"
    if "rank" not in numbers:
        raise ClusterError(f"no variable of mpiexec has the rank, on {host()}. Fix: {start}", variable="PMI_RANK")
    _reject_counts(numbers, nodes, devices, start)
    rank = numbers["rank"]
    node_rank = _find_node_rank(environ, numbers, nodes, devices)
    local_rank = numbers["local_rank"].value if "local_rank" in numbers else rank.value - node_rank * devices
    if not 0 <= local_rank < devices:
        raise _unordered(rank)
    return Place(rank.value, nodes * devices, local_rank, node_rank)


def infer_shape(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of nodes, and of processes on each, as the launcher says.

    Raises :class:`ClusterError` if it does not say so.
    """
    numbers = {each.field: each.value for each in read(environ)}
    world_size, local_size = numbers.get("world_size", 0), numbers.get("local_size", 0)
    if local_size < 1 or world_size < local_size or world_size % local_size:
        raise ClusterError(
            f"the launcher sets no number of nodes on {host()}. Fix: build the Trainer first", variable="PMI_SIZE"
        )
    return world_size // local_size, local_size


def _reject_counts(numbers: Mapping[str, Said], nodes: int, devices: int, start: str) -> None:
    asked = f"with num_nodes={nodes} and devices={devices}"
    for field, count in (("world_size", nodes * devices), ("local_size", devices)):
        if field in numbers and numbers[field].value != count:
            where = "" if field == "world_size" else " on each node"
            raise _wrong(numbers[field], f"{asked} there are {count} processes{where}", start)
    for field, count in (("rank", nodes * devices), ("local_rank", devices), ("node_rank", nodes)):
        if field in numbers and not 0 <= numbers[field].value < count:
            raise _wrong(numbers[field], f"{asked} it must be from 0 to {count - 1}", start)


def _find_node_rank(environ: Mapping[str, str], numbers: Mapping[str, Said], nodes: int, devices: int) -> int:
    if "node_rank" in numbers:
        return numbers["node_rank"].value
    if nodes == 1:
        return 0
    listed = NodeList.read(environ)
    if listed is not None and len(listed.hosts) == nodes:
        return listed.position()
    # Without a list, or if the run uses some of its nodes, ranks must be numbered node by node.
    rank = numbers["rank"]
    if "local_rank" not in numbers or (rank.value - numbers["local_rank"].value) % devices:
        raise _unordered(rank)
    return rank.value // devices


def _wrong(said: Said, found: str, start: str) -> ClusterError:
    fix = f"{start}, or unset it if it is left over"
    return ClusterError(f"{said} on {host()}: {found}. Fix: {fix}", variable=said.variable)


def _unordered(rank: Said) -> ClusterError:
    return ClusterError(
        f"{rank} on {host()}: its node is unknown. Fix: number the ranks node by node, as `mpiexec -ppn` does",
        variable=rank.variable,
    )


def find_address(environ: Mapping[str, str], *, rank: int, nodes: int, srun: bool = False) -> str:
    """Return the address of rank 0: MASTER_ADDR, or else the first node of the job.

    With ``srun``, the nodes are those of one step of SLURM's job. Raises :class:`ClusterError` if there is no list, or
    if it is too short, does not name this host, or begins with another host than rank 0's.
    """
    if environ.get("MASTER_ADDR"):
        return environ["MASTER_ADDR"]
    listed = NodeList.read(environ, step=srun)
    if nodes == 1:
        return listed.first if srun and listed else "127.0.0.1"
    if listed is None:
        raise ClusterError(
            f"MASTER_ADDR, {PBS_FILE} and {SLURM_LISTS[0]} are not set on {host()}. Fix: {_FIX}", variable="MASTER_ADDR"
        )
    if len(listed.hosts) < nodes:
        found = f"{listed.quote()} names {len(listed.hosts)} nodes, not num_nodes={nodes}"
        raise ClusterError(f"{found}. Fix: change num_nodes=, or {_FIX}", variable=listed.variable)
    if listed.position() and rank == 0:
        found = f"{listed.quote()} begins with {shorten(listed.first)}, but rank 0 is on {host()}"
        raise ClusterError(f"{found}. Fix: {_FIX}", variable=listed.variable)
    return listed.first


def find_port(environ: Mapping[str, str]) -> int:
    """Return the port on which rank 0 listens: MASTER_PORT, or else one that follows from the job's id.

    Outside a job it is :data:`DEFAULT_PORT`. Raises :class:`ClusterError` if MASTER_PORT is not a number.
    """
    if environ.get("MASTER_PORT"):
        return read_number("MASTER_PORT", environ["MASTER_PORT"])
    for variable in JOB_IDS:
        digits = re.sub(r"\D", "", environ.get(variable, "").partition(".")[0])  # 123[4].server is one of an array
        if digits:
            return _FIRST_PORT + int(digits[-4:])
    return DEFAULT_PORT
