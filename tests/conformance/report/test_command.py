"""The commands of the suite: errors for wrong usage, the folder that a run leaves, and reports side by side."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from tests.conformance.report.conftest import report_of, result
from tests.core.command import command, flowing
from typer.testing import CliRunner

import northbridge
from northbridge_conformance.commands import app, compare_reports
from northbridge_conformance.report import command as room
from northbridge_conformance.report.command import write_all
from northbridge_conformance.report.comparison import compare
from northbridge_conformance.report.report import INTERRUPTED, NOT_ASKED, Report
from northbridge_conformance.verdict import Verdict

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))


def prove(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `northbridge conformance` in ``folder``."""
    command, environ = [NORTHBRIDGE, "conformance", *arguments], {**os.environ, **variables}
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give either the name of a backend, or a report with --verify"),
        (("cpu_sim", "--verify", "report.json"), "give either the name of a backend"),
        (("cpu_sim", "--level", "C7"), "--level='C7' is not one of C0, C1, C2, C3, C4"),
        (("--verify", "report.json", "--out", "there"), "--verify cannot be combined with --out"),
        (("cpu_simm",), "no backend 'cpu_simm' is installed"),
        (("--verify", "nothing.json"), "is not a conformance report"),
        (("cpu_sim", "--out", "/proc/nowhere"), "cannot write into /proc/nowhere"),
    ],
)
def test_wrong_usage_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)

    ended = CliRunner().invoke(app, ["conformance", *arguments])

    assert ended.exit_code == 2 or isinstance(ended.exception, northbridge.NorthbridgeError)
    assert words in " ".join(f"{ended.output} {ended.exception}".replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_early_interruption_leaves_no_report(
    interruption: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(room, "run_suite", Mock(side_effect=interruption))
    said = "northbridge: the suite was interrupted, and no report was written"

    for words in ("", f"; what is in {tmp_path} is an earlier run's"):
        with pytest.raises(interruption):
            room.run("cpu_sim", "C0", tmp_path, ())
        assert capsys.readouterr().err.endswith(f"{said}{words}\n")
        (tmp_path / "report.json").touch()


def test_part_of_the_suite_is_told_test_by_test(tmp_path: Path) -> None:
    part = ("cpu_sim", "--level", "C0", "--out", "report", "--only")

    passing = prove(tmp_path, *part, "PluginMetadata/test_the_name")
    nothing = prove(tmp_path, *part, "no_such_test")

    assert passing.returncode == 0, passing.stdout + passing.stderr
    assert "PASS  C0/PluginMetadata/test_the_name_is_a_valid_accelerator_name" in passing.stdout
    assert re.match("A part of the suite ran on .*, which grants no level\n  backend 'cpu_sim', ", passing.stdout)
    assert "withheld" not in passing.stdout
    assert "NOT RUN" not in passing.stdout
    assert nothing.returncode == 2
    assert "no test up to C0 has 'no_such_test' in its id" in nothing.stderr


def test_sigterm_leaves_a_partial_report(tmp_path: Path) -> None:
    part = ("--level", "C1", "--only", "C0/PluginMetadata", "--only", "C1/", "--out", "report")
    command = [NORTHBRIDGE, "conformance", "cpu_sim", *part]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("northbridge: C1,"):
                process.terminate()

    tests = Report.read(tmp_path / "report" / "report.json").tests
    said = {level: {test.evidence for test in tests if test.level == level} for level in ("C0", "C1")}
    assert said == {"C0": {"", NOT_ASKED}, "C1": {INTERRUPTED}}
    assert process.returncode == 1


def test_everything_is_there_in_the_place_of_an_earlier_run(good: Report, mixed: Report, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    write_all(good, folder)

    report, page, markdown, _ = write_all(mixed, folder)

    assert sorted(os.listdir(folder)) == ["badge.svg", "index.html", "report.json", "report.md"]  # and no draft
    assert Report.read(report) == mixed
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert markdown.read_text(encoding="utf-8").startswith("# Acme X100: C0\n")


def test_what_cannot_be_written_leaves_what_was_there(
    good: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(good, tmp_path)
    before = (tmp_path / "report.json").read_bytes()

    def fill(path: Path, text: str, **_: str) -> int:
        with path.open("w") as file:
            file.write(text[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(northbridge.ReportError, match="No space left on device"):
        write_all(good, tmp_path)

    assert (tmp_path / "report.json").read_bytes() == before
    assert len(os.listdir(tmp_path)) == 4
    monkeypatch.undo()
    said = f"cannot write {tmp_path}/report.json/out/report.json: Not a directory. Fix: use another folder"
    with pytest.raises(northbridge.ReportError, match=re.escape(said)):
        write_all(good, tmp_path / "report.json" / "out")


def test_tests_that_differ_are_told_the_most_urgent_first(good: Report, mixed: Report) -> None:
    """And every claim."""
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
    claims = {claim.name: claim.findings for claim in compare([good, mixed]).claims}
    assert claims["float16"] == ("unknown", "false")
    assert claims["float32"] == ("proved", "proved")


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
    assert re.search(r"^ +acme \(simulated\) +acme *$", said, re.M)
    assert re.search(r"^level +C3 \(simulated\) +C0 *$", said, re.M)
    assert re.search(r"^tests: PASS +352 +352 *$", said, re.M)
    assert re.search(r"^bfloat16 +\? unknown +! hidden *$", said, re.M)
    assert "8 tests differ, 352 have the same verdict" in said
    assert "\nacme (simulated) | acme\n" in said
    assert "absent | UNDERCLAIM C2/Training/test_bf16_trains" in flowing(said)
    assert "<h1>acme (simulated) · acme</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


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
    code, said = compared(files[1], files[1])
    assert code == 0
    assert "The same verdicts: 360 tests." in said
    assert "different suites" not in said


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
