"""`make compat`: what may be asked for, what is run, and what the page says; on reports that are made up."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from packaging.version import Version
from tests.compat import __main__ as command, environments
from tests.compat.environments import ROOT, EnvironmentRefusedError, constraints_with, prepare, release
from tests.compat.suites import Outcome, read, run, suites

from northbridge_cpu_sim import SimulatedDevice

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5">
<testcase classname="tests.a" name="test_passes" time="0.1"/>
<testcase classname="tests.a" name="test_passes_too" time="0.1"/>
<testcase classname="tests.a" name="test_is_skipped" time="0"><skipped message="no such card">…</skipped></testcase>
<testcase classname="tests.b" name="test_is_wrong[1]"><failure message="assert 1 == 2&#10;more">…</failure></testcase>
<testcase classname="tests.b" name="test_breaks"><error message="fixture 'x' not found">…</error></testcase>
</testsuite></testsuites>"""
FAILED = (("tests.b::test_is_wrong[1]", "assert 1 == 2"), ("tests.b::test_breaks", "fixture 'x' not found"))


class TestWhatIsAskedFor:
    def test_a_release_is_taken(self) -> None:
        assert release("2.15.0") == Version("2.15.0")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("newest", r"^'newest' is not a release of torch: write one, such as TORCH=2\.15\.0$"),
            ("2.12.1", r"^torch 2\.12\.1 was asked for, but the simulated chip needs torch 2\.13 or later"),
        ],
    )
    def test_what_cannot_be_tried_is_refused(self, text: str, said: str) -> None:
        with pytest.raises(EnvironmentRefusedError, match=said):
            release(text)

    def test_the_command_says_one_line_and_ends_with_2(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command.main(["2.12.0"]) == 2
        assert command.main([]) == 2

        below, nothing = capsys.readouterr().err.splitlines()
        assert below.startswith("make compat: torch 2.12.0 was asked for")
        assert nothing == "make compat: say which release of torch: make compat TORCH=2.15.0"


class TestTheEnvironment:
    def test_everything_but_torch_is_pinned_as_everywhere(self) -> None:
        pinned = constraints_with(Version("2.15.0"), "sympy==1.14.0\ntorch==2.13.0\ntorchmetrics==1.9.0\n")

        assert pinned == "sympy==1.14.0\ntorchmetrics==1.9.0\ntorch==2.15.0\n"

    def test_a_torch_that_pip_does_not_find_is_an_error(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        folder = tmp_path_factory.mktemp("compat")
        asked: list[list[str]] = []

        def run(line: list[str], **_more: object) -> subprocess.CompletedProcess[str]:
            asked.append(line)
            (folder / "9.9.9").mkdir(exist_ok=True)
            return subprocess.CompletedProcess(line, int("torch==9.9.9" in line))

        monkeypatch.setattr(environments, "FOLDER", folder)
        monkeypatch.setattr(subprocess, "run", run)

        with pytest.raises(EnvironmentRefusedError, match=r"^pip could not install torch==9\.9\.9 into "):
            prepare(Version("9.9.9"))

        assert asked[0][:3] == [sys.executable, "-m", "venv"]
        assert not (folder / "9.9.9" / ".complete").exists()


class TestWhatIsRun:
    def test_each_file_of_the_chips_tests_is_in_one_suite(self) -> None:
        everything = [file for suite in suites() if suite.simulates is None for file in suite.files]
        chips = [str(file.relative_to(ROOT)) for file in (ROOT / "tests/backends/cpu_sim").rglob("test_*.py")]

        assert len(everything) == len(set(everything))
        assert set(chips) < set(everything)

    def test_they_are_told_apart_by_their_names(self) -> None:
        device, collective, job, *_ = suites()

        assert "tests/backends/cpu_sim/module/test_memory.py" in device.files
        assert "tests/backends/cpu_sim/csrc/collective/test_calls.py" in collective.files
        assert "tests/backends/cpu_sim/test_conformance.py" in job.files

    def test_chips_with_a_key_of_their_own_train(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A torch that was built for another accelerator refuses these alone, and only here is one tested."""
        simulated: list[str | None] = []

        def run_pytest(_line: list[str], *, env: dict[str, str], **_more: object) -> subprocess.CompletedProcess[str]:
            simulated.append(env.get("NORTHBRIDGE_SIMULATE"))
            return subprocess.CompletedProcess(_line, 2)

        monkeypatch.delenv("NORTHBRIDGE_SIMULATE", raising=False)
        monkeypatch.setattr(subprocess, "run", run_pytest)

        for suite in suites():
            run(suite, Path("python"))

        with_own_key = [SimulatedDevice.read(file) for file in ROOT.glob("backends/*/*/simulated/device.toml")]
        assert simulated == [None, None, None, *sorted(each.type for each in with_own_key if each.key)]
        assert all((ROOT / file).is_file() for suite in suites() for file in suite.files)


class TestWhatCameOfIt:
    def test_a_report_is_counted_and_failures_are_named(self) -> None:
        assert read("device", REPORT) == Outcome("device", passed=2, skipped=1, failed=FAILED)

    def test_a_test_whose_fixture_fails_at_the_end_failed_once(self) -> None:
        twice = REPORT.replace(
            '<testcase classname="tests.b" name="test_breaks">', '<testcase classname="tests.a" name="test_passes">'
        )

        assert read("device", twice).passed == 1


class TestThePage:
    def test_a_section_says_versions_counts_and_what_failed(self) -> None:
        text = command.section("torch 2.15.0+cu132", date(2026, 11, 22), [Outcome("device", 2, 1, FAILED)])

        assert text.startswith("On 2026-11-22, with torch 2.15.0+cu132.")
        assert "| device | 2 | 1 | 2 |" in text
        assert "- `tests.b::test_is_wrong[1]`: `assert 1 == 2`" in text

    def test_suite_that_was_not_run_did_not_pass(self) -> None:
        text = command.section("torch 2.15.0", date(2026, 11, 22), [Outcome("device", 2, 0, ())], ["main job"])

        assert "| device | 2 | 0 | 0 |\n| main job | not run | | |" in text

    def test_other_releases_are_kept_and_the_newest_is_first(self) -> None:
        written = {Version("2.9.0"): "nine", Version("2.15.0"): "fifteen\n\nlines"}

        text = command.page(written)

        assert command.sections(text) == written
        assert text.index("## torch 2.15.0") < text.index("## torch 2.9.0")
