"""The multi-node environment, validated before anything can hang.

A wrong MASTER_ADDR, or a rank that two processes have, causes silence until the timeout: half an hour by default. The
Trainer's arguments determine the allowed values of the launcher's variables.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import replace

from northbridge.errors import ClusterError
from northbridge.launch.environment import CURES, MARKS, RANK_FIELDS, START_COMMANDS, VARIABLES, LaunchEnvironment, Run
from northbridge.launch.mpiexec import starts_ranks

RESOLVE_SECONDS = 20.0
"""Time limit for resolving the master's name: getaddrinfo itself has no limit."""

_CONNECTION = re.compile("timed? ?out|connect|refused|unreachable|clients joined|listen", re.I)


class ClusterWarning(RuntimeWarning):
    """The multi-node environment is unusual, but may be intended."""


def check_environment(run: Run, environ: Mapping[str, str] | None = None) -> None:
    """Reject an environment in which the processes of ``run`` would never meet.

    The strategies for several devices call it at both stages of :class:`Run`; a process that Lightning spawns or forks
    knows only the second. ``environ`` is ``os.environ`` if None. At stage "rank" of every launcher except "lightning",
    MASTER_ADDR and MASTER_PORT are the cluster environment's. Before that stage, "mpi" and "user" are not checked. A
    process with a process group is not checked either: it has met its peers.

    Raises :class:`ClusterError`, which carries ``.variable``. A loopback master address with several nodes causes one
    :class:`ClusterWarning` on each node, because they may share a machine.
    """
    torch_distributed = sys.modules.get("torch.distributed")
    if torch_distributed and torch_distributed.is_available() and torch_distributed.is_initialized():
        return
    if run.stage == "launch" and not VARIABLES[run.launcher]:
        return
    found = LaunchEnvironment(run, os.environ if environ is None else environ)
    _reject_wrong_port(found)
    _reject_out_of_range(found)
    _reject_missing(found)
    _reject_left_over_rank(found)
    _reject_contradiction(found)
    _reject_unresolvable(found)
    _reject_used_port(found)
    if doubt := _doubt_about_loopback(found):
        warnings.warn(doubt, ClusterWarning, stacklevel=2)


def check_variables(environ: Mapping[str, str]) -> str:
    """Reject variables that are wrong for any run; return a doubt about one, or an empty text.

    It assumes the smallest run that they describe. ``northbridge doctor`` calls it without a Trainer. A used port is an
    error, because no run has begun. Raises :class:`ClusterError`.
    """
    found = LaunchEnvironment.of_unknown_run(environ)
    starts_ranks(environ)
    _reject_wrong_port(found)
    values = found.values
    if values.rank is not None and values.world_size is not None and not 0 <= values.rank < values.world_size:
        raise found.error("rank", f"with {found.quote('world_size')} it must be from 0 to {values.world_size - 1}")
    for field in ("node_rank", "local_rank"):
        if (getattr(values, field) or 0) < 0:
            raise found.error(field, "it counts from 0")
    found = LaunchEnvironment(replace(found.run, nodes=(values.node_rank or 0) + 1), environ)
    _reject_missing(found)
    _reject_unresolvable(found)
    _reject_used_port(found)
    return _doubt_about_loopback(found)


def check_numbers(run: Run, environ: Mapping[str, str] | None = None) -> None:
    """Reject a rank or count that is missing or not a number, before Lightning's cluster environment reads it.

    The strategies for several devices call it when Lightning asks them for their ranks. Raises :class:`ClusterError`.
    """
    found = LaunchEnvironment(run, os.environ if environ is None else environ)
    _ = found.values
    if run.launcher in START_COMMANDS:
        _reject_missing(found)


def check_slurm(environ: Mapping[str, str] | None = None) -> None:
    """Reject a variable of SLURM's that is not a number, before Lightning's connector reads it.

    Called if Lightning detects SLURM for this process. Raises :class:`ClusterError`.
    """
    run = Run(nodes=1, devices=1, launcher="slurm", stage="launch")
    found = LaunchEnvironment(run, os.environ if environ is None else environ)
    try:
        _ = found.values
    except ClusterError as error:
        field = next(field for field, name in found.names.items() if name == error.variable)
        raise found.error(field, "it is not a number", f"start with srun, or unset {error.variable}") from None


def explain_connection_failure(
    run: Run, error: BaseException, environ: Mapping[str, str] | None = None, *, met: bool = False
) -> ClusterError | None:
    """Return the error that explains a failed rendezvous, or None if ``error`` is not about the master.

    The DDP strategy calls it if creating the process group raises, with the arguments of :func:`check_environment` at
    stage "rank". If the ranks have ``met``, the master's address and port are right.
    """
    if not isinstance(error, (OSError, RuntimeError)):
        return None
    said = str(error).partition("\n")[0] or type(error).__name__
    unknown = _unknown_interface(said, os.environ if environ is None else environ)
    if unknown is not None:
        return unknown
    if met or not (isinstance(error, (ConnectionError, TimeoutError)) or _CONNECTION.search(said)):
        return None
    found = LaunchEnvironment(run, os.environ if environ is None else environ)
    address = found.get("address")
    if "address already in use" in said.lower():
        return found.error("port", f"it is already taken ({said})")
    if run.nodes > 1 and _is_loopback(address):
        where = "a loopback address leads each node to itself"
        return found.error("address", f"the {run.nodes} nodes did not meet: {where} ({said})")
    if address is None or _is_loopback(address):
        return None
    return found.error(
        "address",
        f"the processes did not meet there, with {found.quote('port')} ({said})",
        "start every node with the same MASTER_ADDR and MASTER_PORT, with no firewall between them",
    )


def _unknown_interface(said: str, environ: Mapping[str, str]) -> ClusterError | None:
    """Return the error about the variable with a network interface that a library could not find."""
    for name, text in environ.items():
        if name.endswith("_SOCKET_IFNAME") and text and said.endswith(text):
            known = ", ".join(interface for _, interface in socket.if_nameindex())
            return ClusterError(
                f"{name}={text!r} on host {socket.gethostname()} is not an interface with an address. Fix: use one"
                f" of {known}, or unset it",
                variable=name,
            )
    return None


def _reject_wrong_port(found: LaunchEnvironment) -> None:
    if found.values.port is not None and not 1 <= found.values.port <= 65535:
        raise found.error("port", "a port is from 1 to 65535")


def _reject_out_of_range(found: LaunchEnvironment) -> None:
    run, processes = found.run, found.run.nodes * found.run.devices
    asked = f"with num_nodes={run.nodes} and devices={run.devices}"
    for field, count in (("node_rank", run.nodes), ("local_rank", run.devices), ("rank", processes)):
        value: int | None = getattr(found.values, field)
        if value is not None and not 0 <= value < count:
            raise found.error(field, f"{asked} it must be from 0 to {count - 1}")
    if found.values.world_size not in (None, processes):
        raise found.error("world_size", f"{asked} there are {processes} processes")


def _reject_missing(found: LaunchEnvironment) -> None:
    launcher, nodes = found.run.launcher, found.run.nodes
    missing: list[tuple[str, str]] = []
    cure = None
    if launcher in START_COMMANDS:
        start = START_COMMANDS[launcher].format(nodes=nodes, devices=found.run.devices)
        cure = f"start with `{start}`, or unset {MARKS[launcher]} if it is left over"
        missing += [(field, f"{launcher} sets it in every process") for field in RANK_FIELDS[1:]]
    if launcher == "lightning" and nodes > 1:
        missing += [
            (
                "port",
                f"each of the {nodes} nodes would choose another port, and they would not meet",
            ),
            ("node_rank", f"each of the {nodes} nodes would act as node 0"),
        ]
    if launcher in ("lightning", "torchrun") and (found.values.node_rank or 0) > 0:
        missing += [("address", "this node would look for node 0 at 127.0.0.1, on itself")]
    for field, reason in missing:
        if found.get(field) is None:
            raise found.error(field, reason, cure if field in RANK_FIELDS else None)


def _reject_left_over_rank(found: LaunchEnvironment) -> None:
    # If LOCAL_RANK is set, Lightning expects its setter to start all ranks and to set the rendezvous address.
    run = found.run
    one_of_several = run.nodes * run.devices > 1 and found.values.local_rank is not None
    if run.launcher != "lightning" or run.stage != "launch" or not run.starts_scripts or not one_of_several:
        return
    if found.get("port") is None:
        reason = f"{found.quote('local_rank')} says that each rank is started alone, and each would choose another port"
        raise found.error("port", reason, f"unset LOCAL_RANK if it is left over, or {CURES['port']}")


def _reject_contradiction(found: LaunchEnvironment) -> None:
    # Only for torchrun: SLURM may number ranks in turn, and some clusters count nodes in RANK.
    values, run = found.values, found.run
    if run.launcher != "torchrun" or values.node_rank is None or values.local_rank is None:
        return
    expected = values.node_rank * run.devices + values.local_rank
    if values.rank != expected:
        parts = f"{found.quote('node_rank')}, {found.quote('local_rank')} and devices={run.devices}"
        raise found.error("rank", f"{parts} make it {expected}")


def _reject_unresolvable(found: LaunchEnvironment) -> None:
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


def _reject_used_port(found: LaunchEnvironment) -> None:
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
                if os.name != "nt":  # on Windows it would share the port with its owner
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((everywhere, found.values.port))
                return
        except OSError as error:
            reason = error
    raise found.error("port", f"rank 0 cannot listen there, because it is taken or reserved ({reason})") from reason


def _doubt_about_loopback(found: LaunchEnvironment) -> str:
    run, rank = found.run, found.rank
    # Lightning's launcher sets its default, 127.0.0.1, on node 0, where it does no harm.
    stage = "launch" if run.launcher == "lightning" else "rank"
    if run.nodes == 1 or run.stage != stage or rank is None or rank % run.devices:
        return ""
    if not _is_loopback(found.get("address")):
        return ""
    return (
        f"{found.quote('address')} on {found.place()}: a loopback address leads each node to itself. Fix: unless"
        f" all {run.nodes} nodes share a machine, {CURES['address']}"
    )


def _is_loopback(host: str | None) -> bool:
    address = _as_ip(host or "")
    return host == "localhost" or bool(address and (address.is_loopback or address.is_unspecified))


def _as_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
