"""The page of a report, on figures that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import page
from bench.page import text
from bench.recorded import read
from tests.bench.reports import figure, written


def test_it_says_when_and_where_and_has_a_row_for_each_figure(tmp_path: Path) -> None:
    shown = written(
        tmp_path,
        figure(
            1.0234,
            lower=1.01,
            upper=1.03,
            first_quartile=0.99,
            third_quartile=1.04,
            parts={"ours": "2.1 µs", "theirs": "2.05 µs"},
        ),
        figure(0.21, what="seconds of something", unit="s", goal=None, verdict="no goal"),
    )

    written_page = text(read(shown))

    assert "Measured on 2026-11-22, torch 2.13.0+cpu, 2 cores of a CPU." in written_page
    rows = [line for line in written_page.splitlines() if line.startswith("| s")]
    assert rows == [
        (
            "| sorting: ours ÷ theirs | 1.023 × | 1.010 × – 1.030 × | 0.990 × – 1.040 × | ≤ 1.050 × |"
            " ours 2.1 µs, theirs 2.05 µs |"
        ),
        "| seconds of something | 0.21 s | 0.21 s – 0.21 s | 0.21 s – 0.21 s |  |  |",
    ]


def test_earlier_figures_of_the_same_machine_stand_beside_it(tmp_path: Path) -> None:
    now = read(written(tmp_path, figure(1.0)))
    before = read(written(tmp_path, figure(1.57, first_quartile=1.5, third_quartile=1.6)))
    elsewhere = before.model_copy(update={"machine": before.machine.model_copy(update={"cores": 64})})

    assert "Before: commit 0123456, measured on 2026-11-22." in text(now, before)
    assert "| sorting: ours ÷ theirs | 1.570 ×, 1.500 × – 1.600 × | 1.000 × |" in text(now, before)
    assert text(now, elsewhere) == text(now)


@pytest.mark.parametrize(("verdict", "reason"), [("MISSED", ""), ("missed, known", " no kernel of its own")])
def test_a_missed_goal_says_so_and_why(tmp_path: Path, verdict: str, reason: str) -> None:
    shown = written(tmp_path, figure(1.2, verdict=verdict, missed=reason.strip()))

    assert f"| **missed: ≤ 1.050 ×**{reason} |" in text(read(shown))


def test_the_command_writes_the_page_and_its_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "read", lambda *_: read(written(tmp_path, figure(1.0))))
    monkeypatch.setattr(page, "PAGE", tmp_path / "measured.md")
    monkeypatch.setattr(page, "draw", lambda _: (tmp_path / "measured.svg").touch())

    assert page.main() == 0
    assert "(measured.svg)" in (tmp_path / "measured.md").read_text()
    assert (tmp_path / "measured.svg").exists()


def test_the_command_says_what_to_do_where_nothing_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page, "read", lambda *_: read(tmp_path / "report.json"))

    assert page.main() == 2
    assert "report.json: measure first, by make bench" in capsys.readouterr().err
