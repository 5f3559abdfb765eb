"""The proof by ``northbridge conformance``, and C4; what it touches counts for the record of the run.

C4 has one Trainer and one Fabric; cpu_sim's has them in all namespaces.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.backends.one_namespace import in_one_namespace_of_a_kind
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.simulation import CHIP
from tests.conformance.proving import prove

from northbridge_conformance.levels import C4, Adopted
from northbridge_conformance.run import FOLDER


class TestProof:
    """The command grants the chip C3, simulated, with the strict options on, and its page is whole."""

    @pytest.mark.timeout(3600)  # the suite has limits of its own, and says which test outlasted them
    def test_it_earns_c3(self, sim: SimChip, environment: dict[str, str], tmp_path: Path) -> None:
        shared = {FOLDER: os.environ[FOLDER]} if FOLDER in os.environ else {}

        assert prove(sim.name, tmp_path / "report", {**environment, **shared}) == []


class TestC4(Adopted):
    level = replace(C4.level, classes=in_one_namespace_of_a_kind(*C4.level.classes))
    backend = CHIP.name
