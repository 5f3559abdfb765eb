"""The environment: whose each variable is, and whether it can be right."""

from __future__ import annotations

import platform
import socket
import sys
from unittest.mock import Mock

import pytest

from northbridge.diagnostics.environment import describe_system, examine_environment
from northbridge.errors import SettingsError
from northbridge_conformance.runs.processes import reserve_port

HOST = f"(host {socket.gethostname()})"


def verdicts(**environ: str) -> dict[str, str]:
    return {each.name: each.verdict for each in examine_environment(environ, ["acme"])}


def reasons(**environ: str) -> dict[str, str]:
    return {each.name: each.reason for each in examine_environment(environ, ["acme"])}


@pytest.fixture
def free_port() -> str:
    return str(reserve_port())


def test_an_environment_that_says_nothing_has_nothing_wrong() -> None:
    assert examine_environment({"PATH": "/bin", "_NORTHBRIDGE_DETECTED": "{}"}, ["acme"]) == ()


def test_our_variables_are_told_with_who_reads_them() -> None:
    """Only values of listed variables are shown."""
    environ = {"NORTHBRIDGE_DISABLE": "acme", "NORTHBRIDGE_ACME_TOKEN": "word", "NORTHBRIDGE_ZETA_TOKEN": "word"}

    told = [
        (each.name, each.value, each.reason) for each in examine_environment({**environ, "NODE_RANK": "0"}, ["acme"])
    ]

    assert sorted(told) == [
        ("NODE_RANK", "0", ""),
        ("NORTHBRIDGE_ACME_TOKEN", "(not shown)", "read by the backend 'acme'"),
        ("NORTHBRIDGE_DISABLE", "acme", ""),
        (
            *("NORTHBRIDGE_ZETA_TOKEN", "(not shown)"),
            "no installed package reads it; it may be misspelt or left over",
        ),
    ]


def test_a_wrong_variable_of_the_cores_is_an_error() -> None:
    with pytest.raises(SettingsError, match="NORTHBRIDGE_DETECT_TIMEOUT='soon' is not a number"):
        examine_environment({"NORTHBRIDGE_DETECT_TIMEOUT": "soon"}, [])


def test_variables_of_a_run_that_can_be_right_are_right(free_port: str) -> None:
    environ = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": free_port, "NODE_RANK": "0", "WORLD_SIZE": "16"}

    assert verdicts(**environ) == dict.fromkeys(environ, "right")


@pytest.mark.parametrize(
    ("environ", "variable", "reason"),
    [
        (
            {"MASTER_PORT": "many"},
            "MASTER_PORT",
            f"MASTER_PORT='many' on host {HOST[6:-1]}: it is not a number. Fix: export",
        ),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT", "MASTER_PORT='70000' on host"),
        (
            {"PMI_RANK": "1", "PMI_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"},
            *("PMI_RANK", "PMI_RANK='1' contradicts OMPI_COMM_WORLD_RANK='3' on host "),
        ),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK", "with WORLD_SIZE='4' it must be from 0 to 3. Fix: unset RANK"),
        ({"NODE_RANK": "-1"}, "NODE_RANK", "it counts from 0. Fix: export NODE_RANK, 0 on the first node"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK", "it counts from 0. Fix: unset LOCAL_RANK"),
        (
            {"NODE_RANK": "1", "MASTER_ADDR": "192.0.2.1"},
            "MASTER_PORT",
            "MASTER_PORT is not set on node 1 " + HOST + ": each of the 2 nodes would choose another port",
        ),
        ({"MASTER_ADDR": "no-such-host.invalid"}, "MASTER_ADDR", "it does not resolve ("),
        (
            {"TORCHELASTIC_RUN_ID": "none", "GROUP_RANK": "0", "LOCAL_RANK": "0", "RANK": "0"},
            "WORLD_SIZE",
            "WORLD_SIZE is not set on node 0 " + HOST + ": torchrun sets it in every process",
        ),
    ],
)
def test_what_is_wrong_whatever_is_run_is_told(environ: dict[str, str], variable: str, reason: str) -> None:
    wrong = [each for each in examine_environment(environ, []) if each.verdict == "wrong"]

    assert [each.name for each in wrong] == [variable]
    assert reason in wrong[0].reason
    assert wrong[0].value == environ.get(variable)


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        told = reasons(MASTER_PORT=str(listener.getsockname()[1]))

    assert "rank 0 cannot listen there, because it is taken or reserved" in told["MASTER_PORT"]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    told = verdicts(MASTER_ADDR="no-such-host.invalid", MASTER_PORT="0", NODE_RANK="0", WORLD_SIZE="two")

    assert told == {"MASTER_ADDR": "wrong", "MASTER_PORT": "wrong", "NODE_RANK": "right", "WORLD_SIZE": "wrong"}


def test_a_loopback_address_for_a_second_node_is_a_note() -> None:
    told = examine_environment({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "NODE_RANK": "1"}, [])

    assert [(each.name, each.verdict) for each in told if each.reason] == [("MASTER_ADDR", "note")]
    assert "a loopback address leads each node to itself" in told[0].reason


@pytest.mark.parametrize(
    ("environ", "wrong"),
    [
        ({"SLURM_NODEID": "0", "SLURM_LOCALID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "4"}, "SLURM_PROCID"),
        (
            {"JSM_NAMESPACE_LOCAL_RANK": "0", "JSM_NAMESPACE_RANK": "5", "JSM_NAMESPACE_SIZE": "4"},
            "JSM_NAMESPACE_RANK",
        ),
    ],
    ids=["slurm", "lsf"],
)
def test_another_launchers_variables_are_told_by_their_names(environ: dict[str, str], wrong: str) -> None:
    assert verdicts(**environ) == {**dict.fromkeys(environ, "right"), wrong: "wrong"}


def test_system_as_python_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.check_output", Mock(side_effect=OSError))  # asks uname for an unused processor

    assert describe_system() == platform.platform()


def test_system_starts_no_process() -> None:
    started: list[str] = []
    listening = True
    sys.addaudithook(lambda event, _: started.append(event) if listening and event == "subprocess.Popen" else None)

    describe_system()
    listening = False

    assert started == []
