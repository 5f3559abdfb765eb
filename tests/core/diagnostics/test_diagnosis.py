"""The advice, in the order in which to act; and the tables, from what is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.core.command import flowing

from northbridge.diagnostics.backends import BackendReport, BackendRow
from northbridge.diagnostics.diagnosis import Diagnosis, advise
from northbridge.diagnostics.environment import Variable
from northbridge.diagnostics.namespaces import NamespaceRow, Selection
from northbridge.diagnostics.table import show
from northbridge.diagnostics.training import SelfTest
from northbridge.process_record import Entry

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


def test_what_is_known_from_two_sides_is_told_once() -> None:
    told = "backend 'acme': its contract.toml line 3 is wrong"
    backend = BackendReport(BackendRow("acme", "1.0", "acme", "broken", reason=told), contract_problem=told)

    assert len(advise(diagnosis(asked="acme", backends=(backend,)))) == 1


def test_a_taken_names_owner_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    backend = BackendReport(BackendRow("acme", "1.0", "northbridge-acme", "ready", True, 2, False))
    namespace = NamespaceRow("lightning.fabric", "2.6.6", "lightning", "registered")
    entry = Entry("acme", "left alone", "acme_lightning.AcmeAccelerator has it in lightning.fabric")

    show(
        Diagnosis(
            northbridge="0.1.0",
            python="3.11.7",
            torch="2.13.0",
            backends=(backend,),
            namespaces=(namespace,),
            record=(entry,),
        )
    )

    assert "acme left alone: acme_lightning.AcmeAccelerator has it in lightning.fabric" in flowing(
        capsys.readouterr().out
    )
