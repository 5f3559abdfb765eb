"""Whatever keeps a chip from its level, or its page from being whole, is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance import proving
from tests.conformance.proving import prove
from tests.conformance.report.conftest import passing, report_of, result

from northbridge_conformance.report.command import write_all
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

Command = Callable[..., None]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Put a command in place of ours that leaves a report, or none, and ends with a code."""

    def put(code: int, report: Report | None = None, *, added: str = "") -> None:
        ready = tmp_path / "ready"
        ready.mkdir()
        if report is not None:
            write_all(report, ready)
            with (ready / "index.html").open("a") as page:
                page.write(added)
        script = tmp_path / "northbridge"
        copy = f"shutil.copytree({str(ready)!r}, sys.argv[sys.argv.index('--out') + 1], dirs_exist_ok=True)"
        script.write_text(f"#!{sys.executable}\nimport shutil, sys\nprint('said')\n{copy}\nsys.exit({code})\n")
        script.chmod(0o755)
        monkeypatch.setattr(proving, "_NORTHBRIDGE", script)

    return put


def test_complete_chip_keeps_its_level(command: Command, tmp_path: Path) -> None:
    command(0, report_of(passing()))

    assert prove("acme", tmp_path / "out" / "acme") == []
    assert (tmp_path / "out" / "acme.txt").read_text() == "said\n"


def test_another_level_failed_tests_and_links_are_told(command: Command, tmp_path: Path) -> None:
    """A level that is not said to be simulated is another."""
    failed = result("Collective", "a sum", Verdict.FAIL, evidence="E  assert 3 == 4")
    links = "<a href='#gone'>there</a><img src='https://elsewhere.example/x.png'><form action='/ask'></form>"
    command(1, report_of([*passing(), failed], simulated=False), added=links)

    said = "acme: its page has a link that leads nowhere"
    assert prove("acme", tmp_path / "acme") == [
        "acme: it has C3 and not C3 (simulated), and the command ended with 1",
        "acme: C3/Collective/test_a_sum: E  assert 3 == 4",
        *(f"{said}: {link}" for link in ("#gone", "https://elsewhere.example/x.png", "/ask")),
    ]


def test_a_missing_report_is_told_and_an_old_one_does_not_serve(command: Command, tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    write_all(report_of(passing()), tmp_path / "acme")
    command(2)

    assert prove("acme", tmp_path / "acme") == ["acme: there is no report, and the command ended with 2: said\n"]
