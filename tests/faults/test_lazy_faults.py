"""torch's own lazy device: its level, and the fault of torch behind each test that it does not pass.

``python -m tests.faults.test_lazy_faults`` writes docs/reports/lazy.md.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.core.conftest import VENDORS, install_in
from tests.forks.suite import forking
from tests.scripts import run_forked

from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

pytestmark = pytest.mark.timeout(1800)  # a run of the suite

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
PAGE = Path(__file__).parents[2] / "docs" / "reports" / "lazy.md"


@dataclass(frozen=True)
class LazyFault:
    """One fault of the device."""

    what: str
    code: str
    """The program that shows it."""

    prints: str
    """A part of what the program prints, or of its error."""

    tests: list[str]
    """The prefixes of the ids of the tests that fail because of it."""


FAULTS = [LazyFault(**row) for row in tomllib.loads((VENDORS / "lazy" / "faults.toml").read_text())["fault"]]


def write_page() -> str:
    """Return the page about the faults, whose beginning people write."""
    parts = [PAGE.read_text().partition("\n## ")[0]]
    for fault in FAULTS:
        tests = "\n".join(f"- `{test}`" if test.endswith("]") else f"- `{test}…`" for test in fault.tests)
        parts.append(f"## {fault.what}\n\n```python\n{fault.code}```\n\nIt says `{fault.prints}`.\n\n{tests}\n")
    return "\n".join(parts)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of the suite up to C2."""
    folder = tmp_path_factory.mktemp("lazy")
    asked = [NORTHBRIDGE, "conformance", "lazy", "--level", "C2", "--out", "report"]
    environ = forking(install_in(folder, "lazy").environ())
    ended = subprocess.run(asked, env=environ, cwd=folder, capture_output=True, text=True, timeout=1700, check=False)
    assert (folder / "report" / "report.json").is_file(), ended.stderr
    return Report.read(folder / "report" / "report.json")


@pytest.fixture
def missed(report: Report) -> list[str]:
    return [test.id for test in report.tests if test.verdict not in (Verdict.PASS, Verdict.UNKNOWN)]


def test_lazy_device_earns_its_level(report: Report) -> None:
    assert report.level is not None
    assert report.level.name == "C0"
    assert "earns **C0**" in PAGE.read_text()


def test_each_missed_test_has_a_fault_of_torch(missed: list[str]) -> None:
    assert [test for test in missed if not any(test.startswith(tuple(fault.tests)) for fault in FAULTS)] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_each_fault_makes_its_tests_miss(missed: list[str], fault: LazyFault) -> None:
    assert [each for each in fault.tests if not any(test.startswith(each) for test in missed)] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_reproduction_shows_the_fault(fault: LazyFault, tmp_path: Path) -> None:
    script = tmp_path / "reproduction.py"
    script.write_text(fault.code)

    ended = run_forked(script, folder=tmp_path)

    assert len(fault.code.splitlines()) <= 10
    assert fault.prints in ended.said


def test_the_page_says_what_the_table_says() -> None:
    assert PAGE.read_text() == write_page()


if __name__ == "__main__":
    PAGE.write_text(write_page())
