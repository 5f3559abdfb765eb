"""`make compat`: what may be asked for, what is run, and what the page says; on reports that are made up."""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path

import pytest
from packaging.version import Version
from tests.compat import __main__ as command
from tests.compat.__main__ import (
    ROOT,
    Other,
    Outcome,
    Suite,
    constraints_with,
    read,
    run,
    with_torch,
)

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

TORCH, PYTHON = Other("torch", Version("2.15.0")), Other("Python", Version("3.10"))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["torch", "newest"], r"'newest' is not a release of torch: write one, such as TORCH=2\.15\.0$"),
        (["torch", "2.12.1"], r"torch 2\.12\.1 was asked for, but the simulated chip needs torch 2\.13 or later"),
        (["Python", "3.13.0"], r"'3\.13\.0' is not a release of Python: write one, such as PYTHON=3\.13$"),
        (["Python", "3.9"], r"Python 3\.9 was asked for, but Northbridge needs Python 3\.10 or later: write PY"),
        (["Python", "3.99"], r"Python 3\.99 was found neither in .* nor on PATH. Fix: .*pyenv install 3\.99$"),
        ([], r"say which release of torch or of Python: make compat TORCH=2\.15\.0, or make .*$"),
    ],
)
def test_what_cannot_be_tried_is_refused(asked: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(asked) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(f"make compat: {said}", line)


def test_everything_else_is_pinned_as_far_as_a_python_has_it() -> None:
    text = "# tools\nnumpy==2.4.6\ntorch==2.13.0\ntorchmetrics==1.9.0\n"
    needs = {"numpy": ">=3.11", "torch": None}.get

    assert constraints_with(TORCH, text).splitlines()[1:] == ["numpy==2.4.6", "torchmetrics==1.9.0", "torch==2.15.0"]
    assert constraints_with(PYTHON, text, needs) == "torch==2.13.0\ntorchmetrics==1.9.0\n"
    assert constraints_with(Other("Python", Version("3.13")), text, needs).count("==") == 3


def test_a_torch_runs_each_file_of_the_chips_tests_once() -> None:
    device, collective, job, *others = with_torch()
    everything = [file for suite in (device, collective, job) for file in suite.line if "/" in file]
    chips = [str(file.relative_to(ROOT)) for file in (ROOT / "tests/backends/cpu_sim").rglob("test_*.py")]

    assert len(everything) == len(set(everything))
    assert set(chips) < set(everything)
    assert all((ROOT / file).is_file() for file in everything)
    for suite, file in ((device, "module/test_memory"), (collective, "csrc/collective/test_calls"), (job, "test_conf")):
        assert f"tests/backends/cpu_sim/{file}" in " ".join(suite.line)
    # A torch that was built for another accelerator refuses these alone, and only here is one tested.
    with_own_key = [SimulatedDevice.read(file) for file in ROOT.glob("backends/*/*/simulated/device.toml")]
    assert [suite.simulates for suite in others] == sorted(each.type for each in with_own_key if each.key)


def test_a_report_is_counted_and_failures_are_named() -> None:
    twice = REPORT.replace(
        '<testcase classname="tests.b" name="test_breaks">', '<testcase classname="tests.a" name="test_passes">'
    )

    assert read("device", REPORT) == Outcome("device", passed=2, skipped=1, failed=FAILED)
    assert read("device", twice).passed == 1


@pytest.mark.parametrize(
    ("script", "passed", "failed"),
    [
        ("print(__import__('os').environ['NORTHBRIDGE_SIMULATE'] == 'hpu' or exit(1))", 1, ()),
        ("print('C0 granted, 55 tests ran'); print('C1 granted, 1381 tests ran')", 1436, ()),
        ("print('wrong'); print(); exit(3)", 0, (("demo", "ended with 3: wrong"),)),
    ],
)
def test_a_command_counts_as_one_test_or_says_how_many(
    script: str, passed: int, failed: tuple[tuple[str, str], ...]
) -> None:
    outcome = run(Suite("demo", (Path(sys.executable).name, "-c", script), "hpu"), Path(sys.executable))

    assert outcome == Outcome("demo", passed, 0, failed)


def test_the_page_says_versions_counts_and_what_did_not_pass() -> None:
    text = command.section("torch 2.15.0+cu132", date(2026, 11, 22), [Outcome("device", 2, 1, FAILED)], ["main job"])
    written = {PYTHON: "old", Other("torch", Version("2.9.0")): "nine", TORCH: text}

    page = command.page("# Releases\n\nA text.\n\n## torch 2.8.0\n\neight\n", written)

    assert page.startswith("# Releases\n\nA text.\n\n## torch 2.15.0\n\nOn ")
    assert command.sections(page) == written
    assert page.index("## torch 2.15.0") < page.index("## torch 2.9.0") < page.index("## Python 3.10")
    for said in (
        "On 2026-11-22, with torch 2.15.0+cu132.",
        "| device | 2 | 1 | 2 |\n| main job | not run | | |",
        "- `tests.b::test_is_wrong[1]`: `assert 1 == 2`",
    ):
        assert said in text
