"""The conformance command: errors for wrong usage and missing backends, and the folder that a run leaves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import northbridge
from northbridge_conformance.commands import app
from northbridge_conformance.report import command
from northbridge_conformance.report.command import write_all
from northbridge_conformance.report.report import INTERRUPTED, NOT_ASKED, Report

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


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        (
            "NORTHBRIDGE_DISABLE",
            "cpu_sim",
            "backend 'cpu_sim' (northbridge-cpu-sim 0.1.0) is disabled",
        ),
        ("NORTHBRIDGE_SIMULATE", "cpu_simm", "NORTHBRIDGE_SIMULATE=cpu_simm: no backend"),
    ],
)
def test_variable_excludes_the_backend(tmp_path: Path, variable: str, value: str, words: str) -> None:
    asked = prove(tmp_path, "cpu_sim", "--level", "C0", **{variable: value})

    assert asked.returncode == 2
    assert asked.stderr.startswith(f"northbridge: {words}")
    assert asked.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(
    ("there", "words"), [("", "written\n"), ("report.json", "written; what is in {out} is an earlier run's\n")]
)
def test_early_interruption_leaves_no_report(
    interruption: type[BaseException],
    there: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise interruption

    monkeypatch.setattr(command, "run_suite", interrupt)
    if there:
        (tmp_path / there).touch()

    with pytest.raises(interruption):
        command.run("cpu_sim", "C0", tmp_path, ())

    expected = f"northbridge: the suite was interrupted, and no report was {words.format(out=tmp_path)}"
    assert capsys.readouterr().err.endswith(expected)


def test_part_of_the_suite_is_told_test_by_test(tmp_path: Path) -> None:
    part = ("cpu_sim", "--level", "C0", "--out", "report", "--only")

    passing = prove(tmp_path, *part, "PluginMetadata/test_the_name")
    nothing = prove(tmp_path, *part, "no_such_test")

    assert passing.returncode == 0, passing.stdout + passing.stderr
    assert "PASS  C0/PluginMetadata/test_the_name_is_a_valid_accelerator_name" in passing.stdout
    assert "a part of the suite, which grants no level" in passing.stdout
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
    write_all(good, tmp_path / "new" / "folder")

    written = write_all(mixed, tmp_path / "new" / "folder")

    names = [path.name for path in written]
    assert names == ["report.json", "index.html", "report.md"]
    assert sorted(names) == sorted(os.listdir(tmp_path / "new" / "folder"))  # and no draft
    report, page, markdown = written
    assert Report.read(report) == mixed
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert markdown.read_text(encoding="utf-8").startswith("# acme: C0\n")


def test_unwritable_folder_is_named_with_the_reason(good: Report, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    said = re.escape(
        f"cannot write {tmp_path / 'file' / 'out' / 'report.json'}: Not a directory. Fix: use another folder"
    )
    with pytest.raises(northbridge.ReportError, match=said):
        write_all(good, tmp_path / "file" / "out")


def test_a_full_disk_leaves_what_was_there(good: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert len(os.listdir(tmp_path)) == 3
