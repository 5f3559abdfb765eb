"""Where the ranks of a cluster's job meet: the address and port of rank 0."""

from __future__ import annotations

import re
from collections.abc import Mapping

from northbridge.errors import ClusterError
from northbridge.launch.mpiexec import host, read_number
from northbridge.launch.node_list import PBS_FILE, SLURM_LISTS, NodeList
from northbridge.untrusted.text import shorten

JOB_IDS = ("PBS_JOBID", "SLURM_JOB_ID", "LSB_JOBID")
DEFAULT_PORT = 29500
"""The port outside a job: that of torchrun."""

_FIRST_PORT = 15000  # as Lightning's SLURMEnvironment, so that a job has one port however its ranks are started
_FIX = "export MASTER_ADDR=<the address of rank 0's node>"


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
