"""The advice, in the order in which to act; the tables, from what is known; and the environment's variables."""

from __future__ import annotations

import platform
import socket
import sys
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.core.command import flowing

from northbridge.diagnostics.backends import BackendReport, BackendRow
from northbridge.diagnostics.diagnosis import Diagnosis, advise
from northbridge.diagnostics.environment import Variable, describe_system, examine_environment
from northbridge.diagnostics.namespaces import NamespaceRow, Selection
from northbridge.diagnostics.table import show
from northbridge.diagnostics.training import SelfTest
from northbridge.errors import SettingsError
from northbridge.process_record import Entry
from northbridge_conformance.runs.processes import reserve_port

NOTHING = Diagnosis(
    northbridge="0.1.0",
    python="3.11.7",
    torch="2.13.0",
    namespaces=(),
    selection=Selection("cpu", "no accelerator's hardware is present"),
    backends=(),
)


def test_broken_defaults_are_wrong_if_ready() -> None:
    told = "Card.count() calls torch.acme.device_count() -> int, and it is not there. Fix: override count()"
    ready, absent = (replace(row("acme", status), device_problems=(told,)) for status in ("ready", "no hardware"))

    found = [advise(diagnosis(asked="acme", backends=(backend,)))[0] for backend in (ready, absent)]

    assert [(each.level, each.what) for each in found] == [("wrong", told), ("note", told)]


def diagnosis(**found: Any) -> Diagnosis:
    return replace(NOTHING, **found)


def row(name: str, status: str, reason: str = "") -> BackendReport:
    return BackendReport(BackendRow(name, "1.0", f"northbridge-{name}", status, reason=reason))  # type: ignore[arg-type]


def test_it_is_told_in_the_order_in_which_to_act() -> None:
    environment = (
        Variable("NORTHBRIDGE_ZETA_X", "1", "note", "nobody reads it"),
        Variable("MASTER_PORT", "0", "wrong", "MASTER_PORT='0': a port is from 1 to 65535"),
        Variable("MASTER_ADDR", "192.0.2.1", "right"),
    )
    namespaces = (
        NamespaceRow("lightning.pytorch", "2.6.3", "lightning", "malicious", "uninstall it now"),
        NamespaceRow("pytorch_lightning", "2.8.0", "pytorch-lightning", "left alone", "unknown"),
        NamespaceRow("lightning_fabric", "2.7.9", "pytorch-lightning", "registered", "untested"),
    )
    backends = (
        row("gone", "no hardware", "this machine has no such device"),
        row("bare", "no software", "its software is not installed"),
        row("torn", "broken", "it crashed"),
        row("fine", "ready"),
    )
    trainings = {"fine": (SelfTest(2, "lightning.pytorch.Trainer", False, reason="the ranks did not meet"),)}

    chose = Selection(None, "two of them", failed=True)

    found = advise(
        diagnosis(
            environment=environment, namespaces=namespaces, backends=backends, selection=chose, trainings=trainings
        )
    )

    assert [(each.level, each.about) for each in found] == [
        ("wrong", "lightning.pytorch"),
        ("wrong", "MASTER_PORT"),
        ("wrong", "torn"),
        ("wrong", "fine"),
        ("wrong", "pytorch_lightning"),
        ("wrong", "accelerator='auto'"),
        ("software missing", "bare"),
        ("hardware missing", "gone"),
        ("note", "lightning_fabric"),
        ("note", "NORTHBRIDGE_ZETA_X"),
    ]
    assert found[3].what == "lightning.pytorch.Trainer on 2 cards: the ranks did not meet"


def test_a_backend_that_is_off_is_wrong_for_who_asked_about_it() -> None:
    backends = (row("acme", "off", "switched off by NORTHBRIDGE_DISABLE=acme"),)

    (asked,) = advise(diagnosis(asked="acme", backends=backends))
    (unasked,) = advise(diagnosis(backends=backends))

    assert (asked.level, unasked.level) == ("wrong", "note")
    # What is known from two sides is told once.
    told = "backend 'acme': its contract.toml line 3 is wrong"
    backend = BackendReport(BackendRow("acme", "1.0", "acme", "broken", reason=told), contract_problem=told)
    assert len(advise(diagnosis(asked="acme", backends=(backend,)))) == 1


def test_a_taken_names_owner_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    backend = BackendReport(BackendRow("acme", "1.0", "northbridge-acme", "ready", True, 2, False))
    namespace = NamespaceRow("lightning.fabric", "2.6.6", "lightning", "registered")
    entry = Entry("acme", "left alone", "acme_lightning.AcmeAccelerator has it in lightning.fabric")

    show(diagnosis(backends=(backend,), namespaces=(namespace,), record=(entry,)))

    told = flowing(capsys.readouterr().out)
    assert "acme left alone: acme_lightning.AcmeAccelerator has it in lightning.fabric" in told


HOST = f"(host {socket.gethostname()})"


def verdicts(**environ: str) -> dict[str, str]:
    return {each.name: each.verdict for each in examine_environment(environ, ["acme"])}


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
        ("NORTHBRIDGE_ZETA_TOKEN", "(not shown)", "no installed package reads it; it may be misspelt or left over"),
    ]


def test_variables_that_can_be_right_are_right() -> None:
    """Nothing is told of an environment that says nothing; a wrong variable of the core's is an error."""
    environ = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": str(reserve_port()), "NODE_RANK": "0", "WORLD_SIZE": "16"}

    assert verdicts(**environ) == dict.fromkeys(environ, "right")
    assert examine_environment({"PATH": "/bin", "_NORTHBRIDGE_DETECTED": "{}"}, ["acme"]) == ()
    with pytest.raises(SettingsError, match="NORTHBRIDGE_DETECT_TIMEOUT='soon' is not a number"):
        examine_environment({"NORTHBRIDGE_DETECT_TIMEOUT": "soon"}, [])


TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "GROUP_RANK": "0", "LOCAL_RANK": "0", "RANK": "0"}


@pytest.mark.parametrize(
    ("environ", "variable", "reason"),
    [
        ({"MASTER_PORT": "many"}, "MASTER_PORT", f"='many' on host {HOST[6:-1]}: it is not a number. Fix: export"),
        (
            {"PMI_RANK": "1", "PMI_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"},
            *("PMI_RANK", "='1' contradicts OMPI_COMM_WORLD_RANK='3' on host "),
        ),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK", "with WORLD_SIZE='4' it must be from 0 to 3. Fix: unset RANK"),
        ({"NODE_RANK": "-1"}, "NODE_RANK", "it counts from 0. Fix: export NODE_RANK, 0 on the first node"),
        (
            {"NODE_RANK": "1", "MASTER_ADDR": "192.0.2.1"},
            *("MASTER_PORT", f" is not set on node 1 {HOST}: each of the 2 nodes would choose another port"),
        ),
        (TORCHRUN, "WORLD_SIZE", f" is not set on node 0 {HOST}: torchrun sets it in every process"),
    ],
)
def test_what_is_wrong_whatever_is_run_is_told(environ: dict[str, str], variable: str, reason: str) -> None:
    (wrong,) = [each for each in examine_environment(environ, []) if each.verdict == "wrong"]

    assert (wrong.name, wrong.value) == (variable, environ.get(variable))
    assert wrong.reason.startswith(variable)
    assert reason in wrong.reason


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = str(listener.getsockname()[1])

        environ = {"MASTER_ADDR": "no-such-host.invalid", "MASTER_PORT": taken, "NODE_RANK": "0", "WORLD_SIZE": "two"}
        told = {each.name: (each.verdict, each.reason) for each in examine_environment(environ, [])}

    assert [told[name][0] for name in environ] == ["wrong", "wrong", "right", "wrong"]
    assert "it does not resolve (" in told["MASTER_ADDR"][1]
    assert "rank 0 cannot listen there, because it is taken or reserved" in told["MASTER_PORT"][1]


def test_a_loopback_address_for_a_second_node_is_a_note() -> None:
    told = examine_environment({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "NODE_RANK": "1"}, [])

    assert [(each.name, each.verdict) for each in told if each.reason] == [("MASTER_ADDR", "note")]
    assert "a loopback address leads each node to itself" in told[0].reason


def test_another_launchers_variables_are_told_by_their_names() -> None:
    slurm = {"SLURM_NODEID": "0", "SLURM_LOCALID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "4"}
    lsf = {"JSM_NAMESPACE_LOCAL_RANK": "0", "JSM_NAMESPACE_RANK": "5", "JSM_NAMESPACE_SIZE": "4"}

    assert verdicts(**slurm) == {**dict.fromkeys(slurm, "right"), "SLURM_PROCID": "wrong"}
    assert verdicts(**lsf) == {**dict.fromkeys(lsf, "right"), "JSM_NAMESPACE_RANK": "wrong"}


def test_system_is_as_python_says_and_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    listening = True
    sys.addaudithook(lambda event, _: started.append(event) if listening and event == "subprocess.Popen" else None)

    described = describe_system()
    listening = False

    assert started == []
    monkeypatch.setattr("subprocess.check_output", Mock(side_effect=OSError))  # asks uname for an unused processor
    assert described == platform.platform()
