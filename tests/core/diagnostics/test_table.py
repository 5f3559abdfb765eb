"""The tables, from what is known."""

from __future__ import annotations

import pytest
from tests.core.command import flowing

from northbridge.diagnostics.backends import BackendRow
from northbridge.diagnostics.listing import Listing
from northbridge.diagnostics.namespaces import NamespaceRow
from northbridge.diagnostics.table import show
from northbridge.process_record import Entry


def test_a_name_that_is_somebody_elses_there_is_told_with_its_owner(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    backend = BackendRow("acme", "1.0", "northbridge-acme", "ready", True, 2, False)
    namespace = NamespaceRow("lightning.fabric", "2.6.6", "lightning", "registered")
    entry = Entry("acme", "left alone", "acme_lightning.AcmeAccelerator has it in lightning.fabric")

    show(Listing("0.1.0", "3.11.7", "2.13.0", (backend,), (namespace,), (entry,)))

    assert "acme left alone: acme_lightning.AcmeAccelerator has it in lightning.fabric" in flowing(
        capsys.readouterr().out
    )
