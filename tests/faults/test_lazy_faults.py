"""torch's own lazy device: its level, and the fault of torch behind each test that it does not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.core.conftest import Site, install_in
from tests.faults.lazy_faults import LEVEL, PAGE, LazyFault, read_faults, write_page
from tests.forks.suite import forking
from tests.scripts import run_forked

from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

pytestmark = pytest.mark.timeout(1800)  # a run of the suite

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of the suite up to C2."""
    folder = tmp_path_factory.mktemp("lazy")
    site: Site = install_in(folder, "lazy")
    asked = [NORTHBRIDGE, "conformance", "lazy", "--level", "C2", "--out", "report"]
    ended = subprocess.run(
        asked, env=forking(site.environ()), cwd=folder, capture_output=True, text=True, timeout=1700, check=False
    )
    assert (folder / "report" / "report.json").is_file(), ended.stderr
    return Report.read(folder / "report" / "report.json")


def missed(report: Report) -> list[str]:
    return [test.id for test in report.tests if test.verdict not in (Verdict.PASS, Verdict.UNKNOWN)]


def test_lazy_device_earns_its_level(report: Report) -> None:
    assert report.level is not None
    assert report.level.name == LEVEL


def test_each_missed_test_has_a_fault_of_torch(report: Report) -> None:
    assert [test for test in missed(report) if not any(fault.misses(test) for fault in read_faults())] == []


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: fault.what)
def test_each_fault_makes_its_tests_miss(report: Report, fault: LazyFault) -> None:
    tests = missed(report)

    assert [each for each in fault.tests if not any(test.startswith(each) for test in tests)] == []


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: fault.what)
def test_reproduction_shows_the_fault(fault: LazyFault, tmp_path: Path) -> None:
    script = tmp_path / "reproduction.py"
    script.write_text(fault.code)

    ended = run_forked(script, folder=tmp_path)

    assert len(fault.code.splitlines()) <= 10
    assert fault.prints in ended.said


def test_the_page_says_what_the_table_says() -> None:
    assert PAGE.read_text() == write_page()
