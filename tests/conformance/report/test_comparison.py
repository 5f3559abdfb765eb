"""Reports side by side, and `northbridge compare`: what a user reads, and what a script is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.conformance.report.conftest import report_of, result
from tests.core.command import command, flowing

import northbridge
from northbridge_conformance.commands import compare_reports
from northbridge_conformance.report.comparison import compare
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict


def test_tests_that_differ_are_told_the_most_urgent_first() -> None:
    titles = {"unknown": Verdict.UNKNOWN, "underclaims": Verdict.UNDERCLAIM, "fails": Verdict.FAIL}
    one = report_of([result("Device", title) for title in ("strides", *titles)])
    other = report_of([result("Device", "strides"), *(result("Device", title, titles[title]) for title in titles)])

    found = compare([one, other])

    assert [(test.title, test.words) for test in found.differing] == [
        ("fails", ("PASS", "FAIL")),
        ("underclaims", ("PASS", "UNDERCLAIM")),
        ("unknown", ("PASS", "UNKNOWN")),
    ]
    assert [test.title for test in found.same] == ["strides"]
    assert {test.words for test in compare([one, report_of([])]).differing} == {("PASS", "absent")}


def test_claims_that_differ_are_told(good: Report, mixed: Report) -> None:
    found = {claim.name: claim.findings for claim in compare([good, mixed]).claims}

    assert found["float16"] == ("unknown", "false")
    assert "float32" not in found


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


@pytest.fixture
def files(good: Report, mixed: Report, tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "good.json", tmp_path / "mixed.json"
    for path, report in zip(paths, (good, mixed), strict=True):
        report.write(path)
    return paths


Compare = Callable[..., tuple[int, str]]


@pytest.fixture
def compared(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Return the exit code and the output of the command."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*paths: Path, out: Path | None = None) -> tuple[int, str]:
        with pytest.raises(typer.Exit) as ended:
            compare_reports(list(paths), out)
        return ended.value.exit_code, capsys.readouterr().out

    return run


def test_differing_reports_show_levels_and_tests(files: tuple[Path, Path], tmp_path: Path, compared: Compare) -> None:
    code, said = compared(*files, out=tmp_path / "page.html")

    assert code == 1
    assert "acme (simulated) C3 (simulated) 352" in flowing(said)
    assert "8 tests differ, 352 have the same verdict" in said
    assert "\nacme (simulated) | acme\n" in said
    assert "absent | UNDERCLAIM C2/Training/test_bf16_trains" in flowing(said)
    assert "<h1>acme (simulated) · acme</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_reports_that_agree_end_with_success(files: tuple[Path, Path], compared: Compare) -> None:
    code, said = compared(files[0], files[0])

    assert code == 0
    assert "The same verdicts: 352 tests." in said


def test_what_one_report_has_no_result_of_is_counted(good: Report, tmp_path: Path, compared: Compare) -> None:
    few = good.model_copy(update={"tests": tuple(test for test in good.tests if test.level != "C3")}).sealed()
    for name, report in (("good", good), ("few", few)):
        report.write(tmp_path / f"{name}.json")

    code, said = compared(tmp_path / "good.json", tmp_path / "few.json")

    absent = sum(test.level == "C3" for test in good.tests)
    assert code == 1
    assert said.endswith(f" has no result of {absent} tests of C3\n")
    assert "C3/Collective/" not in said.partition("differ,")[2]


def test_other_suites_and_changed_reports_are_warned_of(files: tuple[Path, Path], compared: Compare) -> None:
    other = files[0].with_name("other.json")
    report_of([result("Device", "views")], name="other", sources="2" * 64).write(other)
    files[0].write_text(files[0].read_text().replace('"seconds": 0.25', '"seconds": 0.5', 1))

    code, said = compared(files[0], other)

    assert code == 1
    assert "acme: The report was changed after it was written" in flowing(said)
    assert "These reports are of different suites" in flowing(said)
    assert "other: Northbridge 0.1.0, suite 222222222222" in flowing(said)
    assert "different suites" not in compared(files[1], files[1])[1]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param(None, "is not a conformance report: [Errno 2] No such file or directory", id="no file"),
        pytest.param("{", "schema 1: in the file: Invalid JSON", id="no JSON"),
        pytest.param("{}", "schema 1: in suite: Field required. Fix: run the suite again", id="no report"),
        pytest.param('{"schema_version": 2}', "in schema_version: Input should be 1", id="another version"),
    ],
)
def test_a_file_that_is_not_a_report_is_refused(tmp_path: Path, written: str | None, said: str) -> None:
    wrong = tmp_path / "wrong.json"
    if written is not None:
        wrong.write_text(written)

    with pytest.raises(northbridge.ReportError) as refused:
        Report.read(wrong)

    assert str(refused.value).startswith(f"{wrong} is not a conformance report")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("number", "more", "said"),
    [
        (1, (), "northbridge: comparing needs two reports, found 1\n"),
        (2, ("--out", "/proc/nowhere/page.html"), "northbridge: cannot write /proc/nowhere/page.html: "),
    ],
)
def test_wrong_usage_is_one_line_and_ends_with_2(
    files: tuple[Path, Path], number: int, more: tuple[str, ...], said: str
) -> None:
    """In a process of its own, which imports neither pytest nor torch."""
    tell = "import atexit, sys; atexit.register(lambda: print({'pytest', 'torch'} & set(sys.modules), file=sys.stderr))"
    program = f"{tell}\n{command('compare', *map(str, files[:number]), *more)}"
    run = subprocess.run(
        [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, timeout=120, check=False
    )

    assert run.returncode == 2
    assert run.stderr.startswith(said)
    assert run.stderr.splitlines()[1:] == ["set()"]
