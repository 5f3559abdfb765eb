"""The proof by ``northbridge conformance``, and C4; what it touches counts for the record of the run.

C4 has one Trainer and one Fabric; cpu_sim's has them in all namespaces.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.backends.one_namespace import OF_CPU_SIM, in_one_namespace_of_a_kind
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.simulation import CHIP
from tests.conformance.proving import prove
from tests.tiers import LEFT

from northbridge_conformance.levels import C4, Adopted
from northbridge_conformance.report.report import Report
from northbridge_conformance.run import FOLDER


class TestProof:
    """The command grants the chip C3, simulated, with the strict options on, and its page is whole.

    The tests that cpu_sim's proof alone has are those of one package of Lightning, and no others.
    """

    @pytest.mark.timeout(3600)  # the suite has limits of its own, and says which test outlasted them
    def test_it_earns_c3(
        self,
        sim: SimChip,
        environment: dict[str, str],
        tmp_path: Path,
        request: pytest.FixtureRequest,
    ) -> None:
        shared = {FOLDER: os.environ[FOLDER]} if FOLDER in os.environ else {}
        listed = tmp_path / "left.txt"

        assert prove(sim.name, tmp_path / "report", {**environment, **shared}, left_to_cpu_sim=listed) == []

        left = listed.read_text().splitlines()
        ran = Report.read(tmp_path / "report/report.json").suite.expected
        assert [test for test in left if not _is_of_cpu_sim(test)] == []
        assert [test for test in ran if _is_of_cpu_sim(test)] == []
        request.node.user_properties.append((LEFT, f"{len(left)} tests in {' and '.join(OF_CPU_SIM)}"))


def _is_of_cpu_sim(test: str) -> bool:
    return any(f"-{namespace}" in test for namespace in OF_CPU_SIM)


class TestC4(Adopted):
    level = replace(C4.level, classes=in_one_namespace_of_a_kind(*C4.level.classes))
    backend = CHIP.name
