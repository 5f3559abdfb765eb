"""The proof by ``northbridge conformance``, for a chip that poses; what it touches counts for the record of the run.

A chip's ``test_conformance.py`` derives from the class of this module.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.posed.chip import PosedChip

from northbridge.conformance.pages.overview import FAILURES, of_verdict
from northbridge.conformance.proof.report import Report
from northbridge.conformance.runs.shared_runs import FOLDER

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))


class Proof:
    """The command grants the chip C3, simulated, with the harsh options on."""

    @pytest.mark.timeout(3600)  # the suite has limits of its own, and says which test outlasted them
    def test_it_earns_c3(self, posed: PosedChip, environment: dict[str, str], tmp_path: Path) -> None:
        shared = {FOLDER: os.environ[FOLDER]} if FOLDER in os.environ else {}
        proved = subprocess.run(
            [NORTHBRIDGE, "conformance", posed.name, "--level", "C3", "--out", str(tmp_path / "report")],
            env={**environment, **shared, "NORTHBRIDGE_SIMULATE": posed.name},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

        assert proved.returncode in (0, 1), proved.stdout + proved.stderr
        report = Report.read(tmp_path / "report" / "report.json")
        # In full: the page is gone when somebody reads of it in CI.
        failed = [f"{test.id}: {test.evidence}" for test in of_verdict(report, *FAILURES)[:3]]
        assert proved.returncode == 0, proved.stdout + "\n".join(failed)
        assert report.level is not None
        assert report.level.label == "C3 (simulated)"
