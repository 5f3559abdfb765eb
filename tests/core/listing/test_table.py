"""The tables, from what is known."""

from __future__ import annotations

import pytest
from tests.core.command import flowing

from northbridge.journal import Entry
from northbridge.listing import Listing
from northbridge.listing.backends import BackendRow
from northbridge.listing.faces import FaceRow
from northbridge.listing.table import show


def test_a_name_that_is_somebody_elses_there_is_told_with_its_owner(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    backend = BackendRow("acme", "1.0", "northbridge-acme", "ready", True, 2, False)
    face = FaceRow("lightning.fabric", "2.6.6", "lightning", "registered")
    entry = Entry("acme", "left alone", "acme_lightning.AcmeAccelerator has it in lightning.fabric")

    show(Listing("0.1.0", "3.11.7", "2.13.0", (backend,), (face,), (entry,)))

    assert "acme left alone: acme_lightning.AcmeAccelerator has it in lightning.fabric" in flowing(
        capsys.readouterr().out
    )
