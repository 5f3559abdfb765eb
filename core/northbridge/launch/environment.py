"""A launcher's variables in the environment of one process, and messages about them. MPI's are in ``mpiexec.py``."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

import pydantic

from northbridge.errors import ClusterError
from northbridge.untrusted.text import shorten

Launcher = Literal["lightning", "torchrun", "slurm", "lsf", "mpi", "user"]

RANK_FIELDS = ("node_rank", "local_rank", "rank", "world_size")
# The variables that Lightning's cluster environments read. A user's own may read any.
VARIABLES: dict[Launcher, tuple[str, ...]] = {
    "lightning": ("NODE_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE"),
    "torchrun": ("GROUP_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE"),
    "slurm": ("SLURM_NODEID", "SLURM_LOCALID", "SLURM_PROCID", "SLURM_NTASKS"),
    "lsf": ("", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    "mpi": (),
    "user": (),
}
# The variables that Lightning's own environment reads if the first is not set.
_SECOND_CHOICES = {"MASTER_PORT": "STANDALONE_PORT", "NODE_RANK": "GROUP_RANK"}

START_COMMANDS: dict[Launcher, str] = {
    "torchrun": "torchrun --nnodes={nodes} --nproc-per-node={devices}",
    "slurm": "srun --nodes={nodes} --ntasks-per-node={devices}",
    "lsf": "jsrun --nrs={nodes} --tasks_per_rs={devices}",
}
MARKS: dict[Launcher, str] = {"torchrun": "TORCHELASTIC_RUN_ID", "slurm": "SLURM_NTASKS", "lsf": "LSB_JOBID"}
"""The variable by which Lightning detects each launcher."""
CURES = {
    "port": "export one free port, the same on every node: MASTER_PORT=29500",
    "address": "export MASTER_ADDR=<the address of node 0 that the other nodes reach>",
    "node_rank": "export NODE_RANK, 0 on the first node, 1 on the next; where there is one node, unset it",
    "local_rank": "unset LOCAL_RANK, or count it from 0 if you start each process yourself",
    "rank": "unset RANK, which Lightning works out",
    "world_size": "unset WORLD_SIZE, which Lightning works out, or change num_nodes= or devices=",
}


def launcher_of(environ: Mapping[str, str]) -> Launcher:
    """Return the launcher that started a process with this environment; "lightning" if no other is detected."""
    if MARKS["torchrun"] in environ:
        return "torchrun"
    for launcher in ("slurm", "lsf"):
        if all(name in environ for name in VARIABLES[launcher][1:]):
            return launcher
    return "lightning"


@dataclasses.dataclass(frozen=True)
class Run:
    """The arguments of the Trainer or Fabric, and the stage of this process.

    ``stage`` is "launch" before the launcher is called, which itself sets variables, and "rank" right before the
    process group is created. ``rank`` is the global rank, for the launchers without a variable for it: "mpi" and
    "user".
    """

    nodes: int
    devices: int  # per node
    launcher: Launcher
    stage: Literal["launch", "rank"]
    rank: int | None = None
    starts_scripts: bool = True
    """True if Lightning's launcher starts the script for each rank, unless LOCAL_RANK is set; False if it forks."""


class _Values(pydantic.BaseModel):
    # Lightning reads them with int(); pydantic's own conversion would accept "1.0".
    port: Annotated[int | None, pydantic.BeforeValidator(int)] = None
    node_rank: Annotated[int | None, pydantic.BeforeValidator(int)] = None
    local_rank: Annotated[int | None, pydantic.BeforeValidator(int)] = None
    rank: Annotated[int | None, pydantic.BeforeValidator(int)] = None
    world_size: Annotated[int | None, pydantic.BeforeValidator(int)] = None


@dataclasses.dataclass(frozen=True)
class LaunchEnvironment:
    """The launcher's variables of one process, and messages about them."""

    run: Run
    environ: Mapping[str, str]

    @classmethod
    def of_unknown_run(cls, environ: Mapping[str, str]) -> LaunchEnvironment:
        """Read ``environ`` without a Trainer: assume a single-process run."""
        return cls(Run(1, 1, launcher_of(environ), "launch"), environ)

    @cached_property
    def names(self) -> dict[str, str]:
        """The variable that each field is read from."""
        names = {"port": "MASTER_PORT", "address": "MASTER_ADDR"}
        names.update(zip(RANK_FIELDS, VARIABLES[self.run.launcher], strict=False))
        if self.run.launcher == "lightning":
            for field, name in names.items():
                second = _SECOND_CHOICES.get(name, "")
                if name not in self.environ and second in self.environ:
                    names[field] = second
        return names

    @cached_property
    def values(self) -> _Values:
        """The numeric values. Raises :class:`ClusterError` for a text that is not a number."""
        texts = {field: self.get(field) for field in self.names if self.get(field) is not None}
        try:
            return _Values.model_validate(texts)
        except pydantic.ValidationError as error:
            raise self.error(str(error.errors()[0]["loc"][0]), "it is not a number") from None

    @property
    def rank(self) -> int | None:
        """The global rank that this process has, or gets when the launcher is called."""
        values, run = self.values, self.run
        if run.launcher != "lightning":
            return values.rank if run.rank is None else run.rank
        local_rank = 0 if run.stage == "launch" and values.local_rank is None else values.local_rank
        return None if local_rank is None else (values.node_rank or 0) * run.devices + local_rank

    def get(self, field: str) -> str | None:
        """Return the text of ``field``; None if it is not set."""
        return self.environ.get(self.names.get(field, ""))

    def quote(self, field: str) -> str:
        """Return the variable and its value, for a message."""
        text = self.get(field)
        return f"{self.names[field]} is not set" if text is None else f"{self.names[field]}={text!r}"

    def place(self) -> str:
        """Return the node and host of this process, for a message."""
        node = self.get("node_rank") or ""
        host = f"host {socket.gethostname()}"
        return f"node {shorten(node)} ({host})" if node.isdecimal() else host

    def error(self, field: str, found: str, cure: str | None = None) -> ClusterError:
        """Build the error about ``field``: variable, value, node, the fault ``found``, and the fix."""
        run = self.run
        if cure is None and field in RANK_FIELDS and run.launcher in START_COMMANDS:
            start = START_COMMANDS[run.launcher].format(nodes=run.nodes, devices=run.devices)
            cure = f"start with `{start}`, or change num_nodes= or devices="
        message = f"{self.quote(field)} on {self.place()}: {found}. Fix: {cure or CURES[field]}"
        return ClusterError(message, variable=self.names[field])
