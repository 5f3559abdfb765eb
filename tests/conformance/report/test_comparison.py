"""Reports side by side, and `northbridge compare`: what a user reads, and what a script is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.report.conftest import report_of, result
from tests.core.command import command, flowing

import northbridge
from northbridge_conformance.report.comparison import compare
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict


def test_tests_that_differ_are_told_from_those_that_do_not() -> None:
    one = report_of([result("Device", "views"), result("Device", "strides")])
    other = report_of([result("Device", "views", Verdict.FAIL), result("Device", "strides")])

    found = compare([one, other])

    assert [(test.title, test.words) for test in found.differing] == [("views", ("PASS", "FAIL"))]
    assert [test.title for test in found.same] == ["strides"]


def test_a_test_that_one_report_does_not_hold_differs() -> None:
    found = compare([report_of([result("Device", "views")]), report_of([])])

    assert [test.words for test in found.differing] == [("PASS", "absent")]


def test_of_those_that_differ_what_needs_somebody_comes_first() -> None:
    titles = {"unknown": Verdict.UNKNOWN, "underclaims": Verdict.UNDERCLAIM, "fails": Verdict.FAIL}
    one = report_of([result("Device", title) for title in titles])
    other = report_of([result("Device", title, verdict) for title, verdict in titles.items()])

    assert [test.title for test in compare([one, other]).differing] == ["fails", "underclaims", "unknown"]


def test_claims_that_differ_are_told(good: Report, mixed: Report) -> None:
    found = {claim.name: claim.findings for claim in compare([good, mixed]).claims}

    assert found["float16"] == ("unknown", "false")
    assert "float32" not in found


def test_reports_of_different_suites_are_compared_with_a_warning() -> None:
    found = compare([report_of([], sources="1" * 64), report_of([], name="other", sources="2" * 64)])

    assert "These reports are of different suites" in found.warning
    assert "acme: Northbridge 0.1.0, suite 111111111111" in found.warning
    assert compare([report_of([]), report_of([])]).warning == ""


@pytest.mark.parametrize(
    ("others", "labels"),
    [
        pytest.param({"name": "other"}, ("acme", "other"), id="their names"),
        pytest.param({"simulated": False}, ("acme (simulated)", "acme"), id="a real chip beside its simulation"),
        pytest.param({}, ("acme (1)", "acme (2)"), id="nothing but their places"),
    ],
)
def test_each_report_has_a_name_that_tells_it_from_the_others(others: dict[str, Any], labels: tuple[str, ...]) -> None:
    found = compare([report_of([]), report_of([], **others)])

    assert found.labels == labels


@pytest.mark.parametrize("number", [0, 1])
def test_a_comparison_of_fewer_than_two_is_refused(number: int) -> None:
    with pytest.raises(northbridge.ReportError, match=rf"needs two reports, found {number}"):
        compare([report_of([])] * number)


Run = subprocess.CompletedProcess[str]


def run_compare(*arguments: Path | str, first: str = "") -> Run:
    return subprocess.run(
        [sys.executable, "-c", f"{first}\n{command('compare', *map(str, arguments))}"],
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def files(good: Report, mixed: Report, tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "good.json", tmp_path / "mixed.json"
    for path, report in zip(paths, (good, mixed), strict=True):
        report.write(path)
    return paths


def test_differing_reports_show_levels_and_tests(files: tuple[Path, Path]) -> None:
    run = run_compare(*files)

    assert (run.returncode, run.stderr) == (1, "")
    assert "acme (simulated) C3 (simulated) 352" in flowing(run.stdout)
    assert "8 tests differ, 352 have the same verdict" in run.stdout
    assert "\nacme (simulated) | acme\n" in run.stdout
    assert "absent | UNDERCLAIM C2/Training/test_bf16_trains" in flowing(run.stdout)


def test_what_one_report_has_no_result_of_is_counted(good: Report, tmp_path: Path) -> None:
    few = good.model_copy(update={"tests": tuple(test for test in good.tests if test.level != "C3")}).sealed()
    for name, report in (("good", good), ("few", few)):
        report.write(tmp_path / f"{name}.json")

    run = run_compare(tmp_path / "good.json", tmp_path / "few.json")

    absent = sum(test.level == "C3" for test in good.tests)
    assert run.returncode == 1
    assert run.stdout.endswith(f" has no result of {absent} tests of C3\n")
    assert "C3/Collective/" not in run.stdout.partition("differ,")[2]


def test_reports_that_agree_end_with_success(files: tuple[Path, Path]) -> None:
    run = run_compare(files[0], files[0])

    assert (run.returncode, run.stderr) == (0, "")
    assert "The same verdicts: 352 tests." in run.stdout


def test_a_page_is_written_where_it_is_asked_for(files: tuple[Path, Path], tmp_path: Path) -> None:
    run = run_compare(*files, "--out", tmp_path / "page.html")

    assert (run.returncode, run.stderr) == (1, "")
    assert "<h1>acme (simulated) · acme</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_comparing_reports_of_different_suites_prints_a_warning(files: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    report_of([result("Device", "views")], name="other", sources="0ddba11").write(other)

    run = run_compare(files[0], other)

    assert run.returncode == 1
    assert "These reports are of different suites" in flowing(run.stdout)


def test_a_report_that_was_changed_is_not_passed_over(files: tuple[Path, Path]) -> None:
    files[0].write_text(files[0].read_text().replace('"seconds": 0.25', '"seconds": 0.5', 1))

    run = run_compare(*files)

    assert "acme (simulated): The report was changed after it was written" in flowing(run.stdout)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param(None, "is not a conformance report: [Errno 2] No such file or directory", id="no file"),
        pytest.param("{", "schema 1: in the file: Invalid JSON", id="no JSON"),
        pytest.param("{}", "schema 1: in suite: Field required. Fix: run the suite again", id="no report"),
        pytest.param('{"schema_version": 2}', "in schema_version: Input should be 1", id="another version"),
    ],
)
def test_a_file_that_is_not_a_report_is_one_line_and_wrong_usage(
    files: tuple[Path, Path], tmp_path: Path, written: str | None, said: str
) -> None:
    wrong = tmp_path / "wrong.json"
    if written is not None:
        wrong.write_text(written)

    run = run_compare(files[0], wrong)

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"northbridge: {wrong} is not a conformance report")
    assert said in run.stderr
    assert run.stderr.count("\n") == 1


def test_one_report_is_wrong_usage(files: tuple[Path, Path]) -> None:
    run = run_compare(files[0])

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "northbridge: comparing needs two reports, found 1\n"


def test_unwritable_page_is_one_line_and_wrong_usage(files: tuple[Path, Path]) -> None:
    run = run_compare(*files, "--out", "/proc/nowhere/page.html")

    assert run.returncode == 2
    assert run.stderr.startswith("northbridge: cannot write /proc/nowhere/page.html: ")
    assert "Traceback" not in run.stderr


def test_it_imports_neither_pytest_nor_torch(files: tuple[Path, Path]) -> None:
    tell = "import atexit, sys; atexit.register(lambda: print({'pytest', 'torch'} & set(sys.modules), file=sys.stderr))"

    run = run_compare(*files, first=tell)

    assert (run.returncode, run.stderr) == (1, "set()\n")
