"""The picture of a report, on figures that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.plot import draw
from bench.recorded import ReportFileError, read
from tests.bench.reports import figure, written


def test_row_has_ratio_and_value_and_picture_its_date(tmp_path: Path) -> None:
    shown = written(tmp_path, figure(1.023), figure(9.9, what="seconds of something", unit="s"))

    draw(read(shown), tmp_path / "picture.svg")

    text = (tmp_path / "picture.svg").read_text()
    assert "sorting: ours ÷ theirs   1.02" in text
    assert "2026-11-22, torch 2.13.0+cpu, 2 cores of a CPU" in text
    assert "seconds of something" not in text


def test_a_missed_goal_has_another_colour(tmp_path: Path) -> None:
    draw(read(written(tmp_path, figure(1.0))), tmp_path / "met.svg")
    draw(read(written(tmp_path, figure(1.2, verdict="MISSED"))), tmp_path / "missed.svg")

    assert "#e5534b" not in (tmp_path / "met.svg").read_text()
    assert "#e5534b" in (tmp_path / "missed.svg").read_text()


def test_drawing_is_stable_and_has_a_white_ground(tmp_path: Path) -> None:
    report = read(written(tmp_path, figure(1.0)))

    draw(report, tmp_path / "one.svg")
    draw(report, tmp_path / "other.svg")

    text = (tmp_path / "one.svg").read_text()
    assert "fill: #ffffff" in text
    assert text == (tmp_path / "other.svg").read_text()


def test_a_report_without_ratios_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReportFileError, match=r"^the report holds no ratio: measure more$"):
        draw(read(written(tmp_path, figure(3.0, unit="s"))), tmp_path / "picture.svg")
