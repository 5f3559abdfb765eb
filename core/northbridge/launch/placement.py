"""The place of a process among the ranks that mpiexec has started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from northbridge.errors import ClusterError
from northbridge.launch.mpiexec import Said, host, read, reject_contradiction
from northbridge.launch.node_list import NodeList


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
