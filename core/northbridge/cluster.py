"""The multi-node environment, validated before anything can hang.

A wrong MASTER_ADDR, or a rank that two processes hold, shows as silence until the timeout: half an
hour by default. What the launcher's variables must say follows from what the Trainer was asked for.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
import socket
import sys
import threading
import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

import pydantic

from northbridge.errors import ClusterError

RESOLVE_SECONDS = 20.0
"""How long the master's name may take to resolve: getaddrinfo itself has no limit."""

Launcher = Literal["lightning", "torchrun", "slurm", "lsf", "mpi", "user"]

_FIELDS = ("node_rank", "local_rank", "rank", "world_size")
# Where Lightning's cluster environments read these. MPI needs none, a user's own may read anything.
_VARIABLES: dict[Launcher, tuple[str, ...]] = {
    "lightning": ("NODE_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE"),
    "torchrun": ("GROUP_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE"),
    "slurm": ("SLURM_NODEID", "SLURM_LOCALID", "SLURM_PROCID", "SLURM_NTASKS"),
    "lsf": ("", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    "mpi": (),
    "user": (),
}
# What Lightning's own reads where the first is not set.
_SECOND_CHOICES = {"MASTER_PORT": "STANDALONE_PORT", "NODE_RANK": "GROUP_RANK"}

_START: dict[Launcher, str] = {
    "torchrun": "torchrun --nnodes={nodes} --nproc-per-node={devices}",
    "slurm": "srun --nodes={nodes} --ntasks-per-node={devices}",
    "lsf": "jsrun --nrs={nodes} --tasks_per_rs={devices}",
}
_CURES = {
    "port": "export one free port, the same on every node: MASTER_PORT=29500",
    "address": "export MASTER_ADDR=<the address of node 0 that the other nodes reach>",
    "node_rank": "export NODE_RANK, 0 on the first node, 1 on the next; with one node unset it",
    "local_rank": "unset LOCAL_RANK, or count it from 0 if you start each process yourself",
    "rank": "unset RANK, which Lightning works out",
    "world_size": "unset WORLD_SIZE, which Lightning works out, or change num_nodes= or devices=",
}
_CONNECTION = re.compile("timed? ?out|connect|refused|unreachable|clients joined|listen", re.I)


class ClusterWarning(RuntimeWarning):
    """The multi-node environment is odd, and may be meant."""


@dataclasses.dataclass(frozen=True)
class Run:
    """Say what the Trainer or Fabric was asked for, and how far this process has come.

    ``stage`` is "launch" before the launcher is called, which itself writes variables, and "rank"
    right before the process group is made. ``rank`` is the global rank, for the launchers that hold
    it in no variable: "mpi" and "user".
    """

    nodes: int
    devices: int  # per node
    launcher: Launcher
    stage: Literal["launch", "rank"]
    rank: int | None = None


def check_environment(run: Run, environ: Mapping[str, str] | None = None) -> None:
    """Refuse an environment in which the processes of ``run`` would never meet.

    The DDP strategy calls it at both stages of :class:`Run`; a process that Lightning spawns or
    forks knows only the second. ``environ`` is ``os.environ`` if None. At stage "rank" of every
    launcher but "lightning", its MASTER_ADDR and MASTER_PORT are what the cluster environment
    answers, whatever it made them from; before that, "mpi" and "user" are asked nothing. Nor is a
    process that has a process group: it has met its peers.

    Raises :class:`ClusterError`, which carries ``.variable``. A loopback master address with
    several nodes is one :class:`ClusterWarning` on each node, as they may share a machine.
    """
    torch_distributed = sys.modules.get("torch.distributed")
    if torch_distributed and torch_distributed.is_available() and torch_distributed.is_initialized():
        return
    if run.stage == "launch" and not _VARIABLES[run.launcher]:
        return
    found = _Environment(run, os.environ if environ is None else environ)
    _refuse_out_of_range(found)
    _refuse_missing(found)
    _refuse_contradiction(found)
    _refuse_unresolvable(found)
    _refuse_taken_port(found)
    _warn_of_loopback(found)


def explain_connection_failure(
    run: Run, error: BaseException, environ: Mapping[str, str] | None = None
) -> ClusterError | None:
    """Return why the rendezvous failed, or None if ``error`` is not about the master.

    The DDP strategy calls it when making the process group raises, with what it gave to
    :func:`check_environment` at stage "rank".
    """
    if not isinstance(error, (OSError, RuntimeError)):
        return None
    said = str(error).partition("\n")[0] or type(error).__name__
    if not isinstance(error, (ConnectionError, TimeoutError)) and not _CONNECTION.search(said):
        return None
    found = _Environment(run, os.environ if environ is None else environ)
    address = found.get("address")
    if "address already in use" in said.lower():
        return found.error("port", f"it is already taken ({said})")
    if run.nodes > 1 and _is_loopback(address):
        where = "a loopback address is on each node the node itself"
        return found.error("address", f"the {run.nodes} nodes did not meet, for {where} ({said})")
    if address is None or _is_loopback(address):
        return None
    return found.error(
        "address",
        f"the processes did not meet there, with {found.quote('port')} ({said})",
        "start every node with the same MASTER_ADDR and MASTER_PORT, with no firewall between them",
    )


class _Values(pydantic.BaseModel):
    # int() is what Lightning reads them with; pydantic's own would take "1.0".
    port: Annotated[int | None, pydantic.BeforeValidator(int)] = None
    node_rank: Annotated[int | None, pydantic.BeforeValidator(int)] = None
    local_rank: Annotated[int | None, pydantic.BeforeValidator(int)] = None
    rank: Annotated[int | None, pydantic.BeforeValidator(int)] = None
    world_size: Annotated[int | None, pydantic.BeforeValidator(int)] = None


@dataclasses.dataclass(frozen=True)
class _Environment:
    """What one process finds, and the words for it."""

    run: Run
    environ: Mapping[str, str]

    @cached_property
    def names(self) -> dict[str, str]:
        """The variable that each field is read from."""
        names = {"port": "MASTER_PORT", "address": "MASTER_ADDR"}
        names.update(zip(_FIELDS, _VARIABLES[self.run.launcher], strict=False))
        if self.run.launcher == "lightning":
            for field, name in names.items():
                second = _SECOND_CHOICES.get(name, "")
                if name not in self.environ and second in self.environ:
                    names[field] = second
        return names

    @cached_property
    def values(self) -> _Values:
        """The numbers. Raises :class:`ClusterError` for what is none."""
        texts = {field: self.get(field) for field in self.names if self.get(field) is not None}
        try:
            return _Values.model_validate(texts)
        except pydantic.ValidationError as error:
            raise self.error(str(error.errors()[0]["loc"][0]), "it is not a number") from None

    @property
    def rank(self) -> int | None:
        """The global rank that this process has, or takes when the launcher is called."""
        values, run = self.values, self.run
        if run.launcher != "lightning":
            return values.rank if run.rank is None else run.rank
        local_rank = 0 if run.stage == "launch" and values.local_rank is None else values.local_rank
        return None if local_rank is None else (values.node_rank or 0) * run.devices + local_rank

    def get(self, field: str) -> str | None:
        return self.environ.get(self.names.get(field, ""))

    def quote(self, field: str) -> str:
        text = self.get(field)
        return f"{self.names[field]} is not set" if text is None else f"{self.names[field]}={text!r}"

    def place(self) -> str:
        node = self.get("node_rank") or ""
        host = f"host {socket.gethostname()}"
        return f"node {node} ({host})" if node.isdecimal() else host

    def error(self, field: str, found: str, cure: str | None = None) -> ClusterError:
        run = self.run
        if cure is None and field in _FIELDS and run.launcher in _START:
            start = _START[run.launcher].format(nodes=run.nodes, devices=run.devices)
            cure = f"start with `{start}`, or change num_nodes= or devices="
        message = f"{self.quote(field)} on {self.place()}: {found}; {cure or _CURES[field]}"
        return ClusterError(message, variable=self.names[field])


def _refuse_out_of_range(found: _Environment) -> None:
    run, processes = found.run, found.run.nodes * found.run.devices
    if found.values.port is not None and not 1 <= found.values.port <= 65535:
        raise found.error("port", "a port is from 1 to 65535")
    asked = f"with num_nodes={run.nodes} and devices={run.devices}"
    for field, count in (
        ("node_rank", run.nodes),
        ("local_rank", run.devices),
        ("rank", processes),
    ):
        value: int | None = getattr(found.values, field)
        if value is not None and not 0 <= value < count:
            raise found.error(field, f"{asked} it is from 0 to {count - 1}")
    if found.values.world_size not in (None, processes):
        raise found.error("world_size", f"{asked} there are {processes} processes")


def _refuse_missing(found: _Environment) -> None:
    launcher, nodes = found.run.launcher, found.run.nodes
    missing: list[tuple[str, str]] = []
    if launcher in _START:
        missing += [(field, f"{launcher} sets it in every process") for field in _FIELDS[1:]]
    if launcher == "lightning" and nodes > 1:
        missing += [
            (
                "port",
                f"each of the {nodes} nodes would choose another port, and they would not meet",
            ),
            ("node_rank", f"each of the {nodes} nodes would take itself for node 0"),
        ]
    if launcher in ("lightning", "torchrun") and (found.values.node_rank or 0) > 0:
        missing += [("address", "this node would look for node 0 at 127.0.0.1, on itself")]
    for field, reason in missing:
        if found.get(field) is None:
            raise found.error(field, reason)


def _refuse_contradiction(found: _Environment) -> None:
    # Not elsewhere: SLURM may deal ranks out in turn, and some clusters count nodes in RANK.
    values, run = found.values, found.run
    if run.launcher != "torchrun" or values.node_rank is None or values.local_rank is None:
        return
    expected = values.node_rank * run.devices + values.local_rank
    if values.rank != expected:
        parts = f"{found.quote('node_rank')}, {found.quote('local_rank')} and devices={run.devices}"
        raise found.error("rank", f"{parts} make it {expected}")


def _refuse_unresolvable(found: _Environment) -> None:
    host = found.get("address")
    if host is None or _as_ip(host):
        return
    outcome: list[Exception | None] = []

    def resolve() -> None:
        try:
            socket.getaddrinfo(host, None)
            outcome.append(None)
        except (OSError, UnicodeError) as error:
            outcome.append(error)

    thread = threading.Thread(target=resolve, name=f"resolve {host}", daemon=True)
    thread.start()
    thread.join(RESOLVE_SECONDS)
    reason = outcome[0] if outcome else f"no answer within {RESOLVE_SECONDS:g} s"
    if reason is not None:
        raise found.error("address", f"it does not resolve ({reason})")


def _refuse_taken_port(found: _Environment) -> None:
    agent_listens = found.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if found.values.port is None or found.rank != 0 or agent_listens:
        return
    # As torch's TCPStore binds: everywhere, IPv4 if IPv6 fails. No listen(): early ranks must wait.
    reason: OSError | None = None
    for family, everywhere in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                if os.name != "nt":  # there it would share the port with its owner
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((everywhere, found.values.port))
                return
        except OSError as error:
            reason = error
    raise found.error("port", f"rank 0 cannot listen there, it is taken or reserved ({reason})") from reason


def _warn_of_loopback(found: _Environment) -> None:
    run, rank = found.run, found.rank
    # Lightning's launcher writes its default, 127.0.0.1, into node 0, where it does no harm.
    stage = "launch" if run.launcher == "lightning" else "rank"
    if run.nodes == 1 or run.stage != stage or rank is None or rank % run.devices:
        return
    if _is_loopback(found.get("address")):
        warnings.warn(
            f"{found.quote('address')} on {found.place()}: a loopback address is on each node the"
            f" node itself, which is right only if all {run.nodes} nodes share a machine; else"
            f" {_CURES['address']}",
            ClusterWarning,
            stacklevel=3,
        )


def _is_loopback(host: str | None) -> bool:
    address = _as_ip(host or "")
    return host == "localhost" or bool(address and (address.is_loopback or address.is_unspecified))


def _as_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
