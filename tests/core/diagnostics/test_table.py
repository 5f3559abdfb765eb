"""The tables, from what is known."""

from __future__ import annotations

import pytest
from tests.core.command import flowing

from northbridge.diagnostics.backends import BackendReport, BackendRow
from northbridge.diagnostics.diagnosis import Diagnosis
from northbridge.diagnostics.namespaces import NamespaceRow
from northbridge.diagnostics.table import show
from northbridge.process_record import Entry


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
