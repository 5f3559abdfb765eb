"""torch's own lazy device: its level, and the fault of torch behind each test that it does not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.one_namespace import leaving_to_cpu_sim
from tests.core.conftest import install_in
from tests.forks.suite import forking
from tests.real.faults import Fault, Findings
from tests.scripts import run_forked

from northbridge_conformance.report.report import Report

pytestmark = pytest.mark.timeout(1800)  # a run of the suite

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
FINDINGS = Findings.read("lazy")


def test_it_earns_its_level_and_misses_no_other_test(tmp_path: Path) -> None:
    asked = [NORTHBRIDGE, "conformance", "lazy", "--level", "C2", "--out", "report"]
    environ = leaving_to_cpu_sim(forking(install_in(tmp_path, "lazy").environ()), tmp_path / "left.txt")

    ended = subprocess.run(asked, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=1700, check=False)

    assert (tmp_path / "report" / "report.json").is_file(), ended.stderr
    assert FINDINGS.compare(Report.read(tmp_path / "report" / "report.json")) == []


@pytest.mark.parametrize("fault", FINDINGS.faults, ids=lambda fault: fault.what)
def test_reproduction_shows_the_fault(fault: Fault, tmp_path: Path) -> None:
    script = tmp_path / "reproduction.py"
    script.write_text(fault.code)

    ended = run_forked(script, folder=tmp_path)

    assert len(fault.code.splitlines()) <= 10
    assert fault.prints in ended.said
