"""The multi-node environment: the ways it can be wrong, and the launchers that must not notice."""

from __future__ import annotations

import errno
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Literal
from unittest.mock import Mock

import pytest
import torch.distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from northbridge.errors import ClusterError
from northbridge.launch import cluster
from northbridge.launch.cluster import (
    ClusterWarning,
    check_environment,
    check_numbers,
    check_slurm,
    explain_connection_failure,
)
from northbridge.launch.environment import Launcher, Run
from northbridge_conformance.runs.processes import reserve_port

HOST = f"(host {socket.gethostname()})"
AT = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"}
NODE_0, NODE_1 = ({**AT, "NODE_RANK": number} for number in "01")
STAGES: tuple[Literal["launch", "rank"], ...] = ("launch", "rank")
NUMBERS = ("MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE")


def launch(nodes: int = 2, devices: int = 2, launcher: Launcher = "lightning") -> Run:
    return Run(nodes, devices, launcher, "launch")


def started(nodes: int = 2, devices: int = 2, launcher: Launcher = "lightning") -> Run:
    return Run(nodes, devices, launcher, "rank")


def without(environ: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in environ.items() if key != name}


def torchrun(rank: int, **changes: str) -> dict[str, str]:
    run = {"WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True", **AT}
    return {**run, "RANK": str(rank), "LOCAL_RANK": str(rank % 2), "GROUP_RANK": str(rank // 2), **changes}


def slurm(rank: int, **changes: str) -> dict[str, str]:
    job = {"SLURM_JOB_ID": "4711", "SLURM_NODELIST": "node[1-2]", "SLURM_NTASKS": "4"}
    place = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % 2), "SLURM_NODEID": str(rank // 2)}
    return {**job, **place, **changes}


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def free_port() -> int:
    return reserve_port()


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which every name and every socket is a failure of the test."""
    for name in ("getaddrinfo", "socket"):
        monkeypatch.setattr(socket, name, Mock(side_effect=AssertionError("the network was touched")))


def refused(run: Run, environ: Mapping[str, str]) -> ClusterError:
    with pytest.raises(ClusterError) as caught:
        check_environment(run, environ)
    return caught.value


HERE, NODE_1_IS, NODE_2_IS = (f" on {place}: " for place in (HOST[1:-1], f"node 1 {HOST}", f"node 2 {HOST}"))
ASKED = "with num_nodes=2 and devices=2"
FIX_PORT = "export one free port, the same on every node: MASTER_PORT=29500"
FIX_ADDRESS = "export MASTER_ADDR=<the address of node 0 that the other nodes reach>"
FIX_NODE = "export NODE_RANK, 0 on the first node, 1 on the next; where there is one node, unset it"
FIX_SIZE = "unset WORLD_SIZE, which Lightning works out, or change num_nodes= or devices="
FIXES = {
    **dict.fromkeys(("MASTER_PORT", "STANDALONE_PORT"), FIX_PORT),
    "MASTER_ADDR": FIX_ADDRESS,
    **dict.fromkeys(("NODE_RANK", "GROUP_RANK"), FIX_NODE),
    "LOCAL_RANK": "unset LOCAL_RANK, or count it from 0 if you start each process yourself",
    "RANK": "unset RANK, which Lightning works out",
    "WORLD_SIZE": FIX_SIZE,
}
TORCHRUN = "start with `torchrun --nnodes=2 --nproc-per-node=2`, or "
SRUN = "start with `srun --nodes=2 --ntasks-per-node=2`, or "
CHANGE = "change num_nodes= or devices="
NO_PORT = "each of the 2 nodes would choose another port, and they would not meet"
MISSING = f" is not set{NODE_1_IS}"
ALONE = "says that each rank is started alone, and each would choose another port"

ON_NODE_1: list[tuple[Mapping[str, str | None], str]] = [
    ({"MASTER_PORT": None}, f"MASTER_PORT{MISSING}{NO_PORT}"),
    ({"MASTER_ADDR": None}, f"MASTER_ADDR{MISSING}this node would look for node 0 at 127.0.0.1, on itself"),
    ({"NODE_RANK": None}, f"NODE_RANK is not set{HERE}each of the 2 nodes would act as node 0"),
    ({"MASTER_PORT": None, "STANDALONE_PORT": "x"}, f"STANDALONE_PORT='x'{NODE_1_IS}it is not a number"),
    ({"NODE_RANK": None, "GROUP_RANK": "2"}, f"GROUP_RANK='2'{NODE_2_IS}{ASKED} it must be from 0 to 1"),
    *(
        ({name: text}, f"{name}={text!r}{HERE if name == 'NODE_RANK' else NODE_1_IS}it is not a number")
        for name in NUMBERS
        for text in ("first", "", "1.0")
    ),
    *(({"MASTER_PORT": text}, f"MASTER_PORT='{text}'{NODE_1_IS}a port is from 1 to 65535") for text in ("0", "65536")),
    ({"NODE_RANK": "2"}, f"NODE_RANK='2'{NODE_2_IS}{ASKED} it must be from 0 to 1"),
    ({"NODE_RANK": "-1"}, f"NODE_RANK='-1'{HERE}{ASKED} it must be from 0 to 1"),
    ({"LOCAL_RANK": "2"}, f"LOCAL_RANK='2'{NODE_1_IS}{ASKED} it must be from 0 to 1"),
    ({"RANK": "4"}, f"RANK='4'{NODE_1_IS}{ASKED} it must be from 0 to 3"),
    ({"WORLD_SIZE": "3"}, f"WORLD_SIZE='3'{NODE_1_IS}{ASKED} there are 4 processes"),
    (
        {"MASTER_ADDR": "node-0"},
        f"MASTER_ADDR='node-0'{NODE_1_IS}it does not resolve ([Errno {socket.EAI_NONAME}] Name or service not known)",
    ),
]
"""Changes to the environment of node 1 of two, and what is told of each."""

REFUSED: list[tuple[Run, dict[str, str], str, str]] = [
    *(
        (
            launch(),
            {name: text for name, text in {**NODE_1, **changes}.items() if text is not None},
            told,
            FIXES[told.partition("=")[0].partition(" ")[0]],
        )
        for changes, told in ON_NODE_1
    ),
    (launch(), {}, f"MASTER_PORT is not set{HERE}{NO_PORT}", FIX_PORT),
    (
        *(launch(nodes=1), {"WORLD_SIZE": "1"}),
        *(f"WORLD_SIZE='1'{HERE}with num_nodes=1 and devices=2 there are 2 processes", FIX_SIZE),
    ),
    (
        *(started(launcher="slurm"), slurm(1, SLURM_NTASKS="8")),
        *(f"SLURM_NTASKS='8' on node 0 {HOST}: {ASKED} there are 4 processes", SRUN + CHANGE),
    ),
    (
        *(started(launcher="torchrun"), torchrun(3, RANK="1")),
        *(f"RANK='1'{NODE_1_IS}GROUP_RANK='1', LOCAL_RANK='1' and devices=2 make it 3", TORCHRUN + CHANGE),
    ),
    *(
        (
            *(started(launcher="torchrun"), without(torchrun(3), name)),
            f"{name}{MISSING}torchrun sets it in every process",
            f"{TORCHRUN}unset TORCHELASTIC_RUN_ID if it is left over",
        )
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")
    ),
    (
        *(launch(nodes=1), {"LOCAL_RANK": "0"}, f"MASTER_PORT is not set{HERE}LOCAL_RANK='0' {ALONE}"),
        f"unset LOCAL_RANK if it is left over, or {FIX_PORT}",
    ),
]


@pytest.mark.parametrize(("run", "environ", "found", "fix"), REFUSED, ids=lambda each: str(each)[:60])
def test_wrong_environment_is_refused(
    run: Run, environ: dict[str, str], found: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_known = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=not_known))

    error = refused(run, environ)

    assert str(error) == f"{found}. Fix: {fix}"
    assert found.startswith((f"{error.variable}=", f"{error.variable} is"))


def test_a_resolver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor has it an answer for what cannot be a name."""
    assert "it does not resolve (" in str(refused(launch(), {**NODE_1, "MASTER_ADDR": "node..0"}))
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args: released.wait() and [])
    monkeypatch.setattr(cluster, "RESOLVE_SECONDS", 0.05)

    error = refused(launch(), {**NODE_1, "MASTER_ADDR": "node-0"})

    released.set()
    assert "it does not resolve (no answer within 0.05 s)" in str(error)


def test_a_port_already_taken_on_the_master_is_refused(taken_port: int) -> None:
    error = refused(launch(nodes=1), {"MASTER_PORT": str(taken_port)})

    assert str(error) == (
        f"MASTER_PORT='{taken_port}'{HERE}rank 0 cannot listen there, because it is taken or reserved ([Errno"
        f" {errno.EADDRINUSE}] Address already in use). Fix: {FIX_PORT}"
    )


@pytest.mark.parametrize(
    ("run", "environ"),
    [
        (launch(), NODE_0),
        (started(), {**NODE_0, "LOCAL_RANK": "0"}),
        (started(launcher="torchrun"), torchrun(0, TORCHELASTIC_USE_AGENT_STORE="False")),
        (started(launcher="slurm"), slurm(0)),
        (Run(2, 2, "mpi", "rank", rank=0), {}),
        (Run(2, 2, "user", "rank", rank=0), {}),
    ],
    ids=["launching", "lightning", "torchrun", "slurm", "mpi", "user"],
)
def test_rank_0_of_every_launcher_asks_for_a_free_port(run: Run, environ: dict[str, str], taken_port: int) -> None:
    assert refused(run, {**environ, "MASTER_PORT": str(taken_port)}).variable == "MASTER_PORT"


def test_a_port_that_a_finished_run_left_in_time_wait_is_free() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as torch's has it
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server, _ = listener.accept()
            server.close()  # the side that closes first keeps the port in TIME_WAIT
            assert client.recv(1) == b""
    with socket.socket() as probe, pytest.raises(OSError, match="in use"):
        probe.bind(("127.0.0.1", port))  # without SO_REUSEADDR, it looks taken

    check_environment(launch(), {**NODE_0, "MASTER_PORT": str(port)})


def test_a_process_that_has_a_process_group_is_asked_nothing(free_port: int) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{free_port}", rank=0, world_size=1)
    try:
        check_environment(launch(), {**NODE_0, "MASTER_PORT": str(free_port)})
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "0.0.0.0"])
def test_a_loopback_address_with_several_nodes_is_one_warning(address: str, free_port: int) -> None:
    environ = {**NODE_0, "MASTER_ADDR": address, "MASTER_PORT": str(free_port)}

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_environment(launch(), environ)
        for rank in "01":
            check_environment(started(), {**environ, "LOCAL_RANK": rank})

    (warning,) = caught
    assert warning.category is ClusterWarning
    assert warning.filename == __file__
    assert str(warning.message) == (
        f"MASTER_ADDR='{address}' on node 0 {HOST}: a loopback address leads each node to itself."
        f" Fix: unless all 2 nodes share a machine, {FIX_ADDRESS}"
    )


def test_torchrun_loopback_address_is_one_warning_per_node() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rank in range(4):
            environ = torchrun(rank, MASTER_ADDR="127.0.0.1")
            check_environment(launch(launcher="torchrun"), environ)
            check_environment(started(launcher="torchrun"), environ)

    assert ["on node 0" in str(each.message) for each in caught] == [True, False]


LEFT_OVER = {"WORLD_SIZE": "1", "RANK": "9", "LOCAL_RANK": "9", "NODE_RANK": "9"}
WRONG = {"MASTER_ADDR": "a..b", "MASTER_PORT": "x", "WORLD_SIZE": "1", "NODE_RANK": "9"}
LSF = {"JSM_NAMESPACE_SIZE": "4", "JSM_NAMESPACE_RANK": "3", "JSM_NAMESPACE_LOCAL_RANK": "1"}


BY_AGENT = {"TORCHELASTIC_USE_AGENT_STORE": "False"}
ONE_SPAWNED = Run(1, 2, "lightning", "launch", starts_scripts=False)
ONE_NODE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}

SILENT: dict[str, tuple[Run, dict[str, str]]] = {
    "one process without a variable": (launch(nodes=1, devices=1), {}),
    "one node without a variable": (launch(nodes=1, devices=2), {}),
    "the first port": (launch(), {**NODE_1, "MASTER_PORT": "1"}),
    "the last port": (launch(), {**NODE_1, "MASTER_PORT": "65535"}),
    "a world size of nodes times devices": (launch(), {**NODE_1, "WORLD_SIZE": "4"}),
    "a group's rank": (launch(), {**without(NODE_1, "NODE_RANK"), "GROUP_RANK": "1"}),
    "a rank counted in nodes": (started(), {**NODE_1, "RANK": "1", "LOCAL_RANK": "1"}),
    "a rank left over, alone": (launch(nodes=1, devices=1), {"LOCAL_RANK": "0"}),
    "a rank left over, spawned": (ONE_SPAWNED, {"LOCAL_RANK": "0"}),
    "the first node without an address": (launch(), {"NODE_RANK": "0", "MASTER_PORT": "FREE"}),
    "a rank that the user starts": (launch(nodes=1), {"LOCAL_RANK": "1", "MASTER_PORT": "FREE"}),
    # What Lightning's own launcher sets.
    **{
        f"rank {rank} of {size}": (
            started(nodes=size // 2),
            {**ONE_NODE, "MASTER_PORT": "FREE", "NODE_RANK": "0", "WORLD_SIZE": str(size), "LOCAL_RANK": rank},
        )
        for rank, size in (("0", 2), ("1", 2), ("0", 4))
    },
    # Under a launcher of its own, whatever another would have read.
    **{f"slurm rank {rank}": (launch(launcher="slurm"), slurm(rank, **LEFT_OVER)) for rank in range(4)},
    "slurm in turn": (launch(launcher="slurm"), slurm(1, SLURM_NODEID="1", SLURM_LOCALID="0")),
    "lsf": (started(launcher="lsf"), {**without(NODE_1, "NODE_RANK"), **LSF}),
    "mpi before it answers": (launch(launcher="mpi"), WRONG),
    "a user's own environment before it answers": (launch(launcher="user"), WRONG),
    "torchrun on one node": (
        started(nodes=1, launcher="torchrun"),
        torchrun(1, WORLD_SIZE="2", MASTER_ADDR="localhost"),
    ),
    **{
        f"torchrun rank {rank}, {store}, {stage}": (
            Run(2, 2, "torchrun", stage),
            torchrun(rank, TORCHELASTIC_USE_AGENT_STORE=store, MASTER_PORT="FREE"),
        )
        for rank in range(4)
        for store in ("True", "False")
        for stage in STAGES
    },
    # Only rank 0 asks for a free port, unless torchrun's agent listens there.
    "taken on another node": (launch(), {**NODE_1, "MASTER_PORT": "TAKEN"}),
    "taken in another process": (started(), {**NODE_0, "LOCAL_RANK": "1", "MASTER_PORT": "TAKEN"}),
    "taken, torchrun": (started(launcher="torchrun"), {**torchrun(1), **BY_AGENT, "MASTER_PORT": "TAKEN"}),
    "taken, slurm": (started(launcher="slurm"), {**slurm(1), "MASTER_PORT": "TAKEN"}),
    "taken by torchrun's agent": (started(launcher="torchrun"), torchrun(0, MASTER_PORT="TAKEN")),
}


@pytest.mark.parametrize("case", SILENT)
def test_it_is_silent(case: str, taken_port: int, free_port: int, request: pytest.FixtureRequest) -> None:
    """And touches no network, but for a port of rank 0 and for a name."""
    run, environ = SILENT[case]
    ports = {"FREE": str(free_port), "TAKEN": str(taken_port)}
    if not ports.keys() & {*environ.values()} and environ.get("MASTER_ADDR") != "localhost":
        request.getfixturevalue("offline")

    check_environment(run, {name: ports.get(text, text) for name, text in environ.items()})


@pytest.mark.parametrize("launcher", ["mpi", "user"])
def test_mpi_and_a_users_environment_are_checked(launcher: Launcher) -> None:
    answer = {**WRONG, "MASTER_PORT": "29500"}

    assert refused(Run(2, 2, launcher, "rank", rank=3), answer).variable == "MASTER_ADDR"


def failure(make: Callable[[], object]) -> BaseException:
    with pytest.raises(RuntimeError) as caught:
        make()
    return caught.value


def explained(error: BaseException, environ: Mapping[str, str], run: Run | None = None) -> str:
    """Return the explanation, which begins with its variable."""
    reason = explain_connection_failure(run or started(), error, environ)
    assert reason is not None
    assert str(reason).startswith(f"{reason.variable}=")
    return str(reason)


def test_a_loopback_address_is_named_when_the_nodes_do_not_meet(free_port: int) -> None:
    error = failure(lambda: TCPStore("127.0.0.1", free_port, 2, False, timedelta(milliseconds=200)))

    reason = explained(error, {**NODE_1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)})

    assert reason.startswith(
        f"MASTER_ADDR='127.0.0.1' on node 1 {HOST}: the 2 nodes did not meet: a loopback"
        " address leads each node to itself ("
    )
    assert f"timed out after 200ms while trying to connect to (127.0.0.1, {free_port})" in reason
    assert ". Fix: export MASTER_ADDR=<the address of node 0" in reason


def test_unreached_master_names_address_and_port() -> None:
    assert explained(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), NODE_1) == (
        f"MASTER_ADDR='192.0.2.1' on node 1 {HOST}: the processes did not meet there, with"
        f" MASTER_PORT='29500' ([Errno {errno.ECONNREFUSED}] Connection refused). Fix: start every node"
        " with the same MASTER_ADDR and MASTER_PORT, with no firewall between them"
    )


def test_a_port_that_is_taken_in_the_last_moment_is_named(taken_port: int) -> None:
    error = failure(lambda: TCPStore("127.0.0.1", taken_port, 1, True))

    reason = explained(error, {**NODE_0, "MASTER_PORT": str(taken_port)})

    assert reason.startswith(f"MASTER_PORT='{taken_port}' on node 0 {HOST}: it is already taken (")


@pytest.mark.parametrize(
    ("run", "environ", "error"),
    [
        *((started(), NODE_1, each("out of memory")) for each in (RuntimeError, ValueError, KeyError)),
        (started(nodes=1), ONE_NODE, TimeoutError()),  # the address of a single node is not blamed
    ],
)
def test_another_failure_is_not_explained(run: Run, environ: dict[str, str], error: Exception) -> None:
    assert explain_connection_failure(run, error, environ) is None


@pytest.mark.parametrize("check", [check_environment, check_numbers, lambda _run: check_slurm()])
def test_environment_defaults_to_that_of_the_process(
    check: Callable[[Run], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LOCAL_RANK", "SLURM_LOCALID"):
        monkeypatch.setenv(variable, "x")

    with pytest.raises(ClusterError, match=r"LOCAL(_RANK|ID)='x' on .*it is not a number\. Fix: "):
        check(launch())


@pytest.mark.parametrize(
    ("launcher", "environ", "missing", "mark"),
    [
        ("torchrun", {"TORCHELASTIC_RUN_ID": "x"}, "LOCAL_RANK", "TORCHELASTIC_RUN_ID"),
        ("slurm", {"SLURM_NTASKS": "2"}, "SLURM_LOCALID", "SLURM_NTASKS"),
    ],
)
def test_a_lone_variable_is_refused(launcher: Launcher, environ: dict[str, str], missing: str, mark: str) -> None:
    """Before Lightning's cluster environment looks for the others, and raises a KeyError."""
    with pytest.raises(ClusterError) as refusal:
        check_numbers(launch(nodes=1, launcher=launcher), environ)

    assert str(refusal.value).startswith(f"{missing} is not set on ")
    assert f": {launcher} sets it in every process. Fix: start with `" in str(refusal.value)
    assert str(refusal.value).endswith(f"`, or unset {mark} if it is left over")


def test_a_variable_of_slurms_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ClusterError) as refusal:
        check_slurm({"SLURM_NTASKS": "x"})

    assert str(refusal.value) == (
        f"SLURM_NTASKS='x' on {HOST[1:-1]}: it is not a number. Fix: start with srun, or unset SLURM_NTASKS"
    )
    check_slurm({"SLURM_NTASKS": "1"})


def test_an_interface_that_is_not_there_is_named() -> None:
    error = RuntimeError("[enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: nosuch0")

    reason = explained(error, {"GLOO_SOCKET_IFNAME": "nosuch0", "X": "nosuch0"}, started(nodes=1))

    assert reason.startswith(
        f"GLOO_SOCKET_IFNAME='nosuch0'{HERE[:-2]} is not an interface with an address. Fix: use one of"
    )
    assert reason.endswith(", or unset it")
    assert explain_connection_failure(started(nodes=1), error, {"GLOO_SOCKET_IFNAME": "eth0"}) is None
