"""A report of `make bench`: reading it again, its page and its pictures, on figures that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import page
from bench.page import text
from bench.plot import draw
from bench.recorded import Report, ReportFileError, read


def figure(value: float, **more: Any) -> dict[str, Any]:
    """Return a ratio, or what ``more`` makes of it."""
    ends = dict.fromkeys(("lower", "upper", "first_quartile", "third_quartile"), value)
    made_up = {"unit": "×", **ends, "goal": 1.05, "verdict": "met", "missed": "", "values": [value], "sides": []}
    return {"what": "sorting: ours ÷ theirs", "value": value, "parts": {}, **made_up, **more}


def written(folder: Path, *figures: dict[str, Any]) -> Report:
    """Write a report, and read it."""
    report = {
        "date": "2026-11-22T08:00:00+00:00",
        "commit": "0123456",
        "quick": False,
        "machine": {"cpu": "a CPU", "cores": 2, "load_before": 0.1},
        "versions": {"torch": "2.13.0+cpu"},
        "figures": {str(number): each for number, each in enumerate(figures)},
    }
    (folder / "report.json").write_text(json.dumps(report))
    return read(folder / "report.json")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", r"report\.json is not a report of make bench: all of it: .*; measure again$"),
        ('{"date": "today"}', r"report\.json is not a report of make bench: commit: Field required; measure again$"),
    ],
)
def test_a_file_that_is_not_a_report_is_an_error_that_says_where(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "report.json").write_text(content)

    with pytest.raises(ReportFileError, match=said):
        read(tmp_path / "report.json")


def test_it_says_when_and_where_and_has_a_row_for_each_figure(tmp_path: Path) -> None:
    ends = {"lower": 1.01, "upper": 1.03, "first_quartile": 0.99, "third_quartile": 1.04}
    parts = {"ours": "2.1 µs", "theirs": "2.05 µs"}
    seconds = figure(0.21, what="seconds of something", unit="s", goal=None, verdict="no goal")

    shown = text(written(tmp_path, figure(1.0234, **ends, parts=parts), seconds))

    assert "Measured on 2026-11-22, torch 2.13.0+cpu, 2 cores of a CPU." in shown
    assert [line for line in shown.splitlines() if line.startswith("| s")] == [
        (
            "| sorting: ours ÷ theirs | 1.023 × | 1.010 × – 1.030 × | 0.990 × – 1.040 × | ≤ 1.050 × |"
            " ours 2.1 µs, theirs 2.05 µs |"
        ),
        "| seconds of something | 0.21 s | 0.21 s – 0.21 s | 0.21 s – 0.21 s |  |  |",
    ]


def test_earlier_figures_of_the_same_machine_stand_beside_it(tmp_path: Path) -> None:
    now = written(tmp_path, figure(1.0))
    before = written(tmp_path, figure(1.57, first_quartile=1.5, third_quartile=1.6))
    elsewhere = before.model_copy(update={"machine": before.machine.model_copy(update={"cores": 64})})

    assert "Before: commit 0123456, measured on 2026-11-22." in text(now, before)
    assert "| sorting: ours ÷ theirs | 1.570 ×, 1.500 × – 1.600 × | 1.000 × |" in text(now, before)
    assert text(now, elsewhere) == text(now)


def test_the_command_writes_the_page_and_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page, "read", lambda *_: read(tmp_path / "report.json"))
    monkeypatch.setattr(page, "PAGE", tmp_path / "figures.md")
    monkeypatch.setattr(page, "SHORT", tmp_path / "measured.md")
    monkeypatch.setattr(page, "SHOWN", ["0", "gone"])
    (tmp_path / "measured.md").write_text("# Costs\n\n<!-- written -->\nold\n<!-- end -->\n")
    monkeypatch.setattr(page, "draw", lambda _: (tmp_path / "measured.svg").touch())

    assert page.main() == 2
    assert "report.json: measure first, by make bench" in capsys.readouterr().err
    written(tmp_path, figure(1.0))
    assert page.main() == 0
    assert "(../docs/measured.svg)" in (tmp_path / "figures.md").read_text()
    assert (
        "\n| sorting: ours ÷ theirs | 1.000 × | 1.000 × – 1.000 × | ≤ 1.050 × |\n\n<!-- end -->"
        in (tmp_path / "measured.md").read_text()
    )
    assert (tmp_path / "measured.svg").exists()


def test_the_picture_has_each_ratio_and_a_colour_for_misses(tmp_path: Path) -> None:
    met = written(tmp_path, figure(1.023), figure(9.9, what="seconds of something", unit="s"))
    missed = written(tmp_path, figure(1.2, verdict="MISSED"))
    for name, each in {"met": met, "again": met, "missed": missed}.items():
        draw(each, tmp_path / name)
    svg = (tmp_path / "met").read_text()

    for shown in ("sorting: ours ÷ theirs   1.02", "2026-11-22, torch 2.13.0+cpu, 2 cores of a CPU", "fill: #ffffff"):
        assert shown in svg
    assert "seconds of something" not in svg
    assert svg == (tmp_path / "again").read_text()
    assert ["#e5534b" in (tmp_path / name).read_text() for name in ("met", "missed")] == [False, True]
    with pytest.raises(ReportFileError, match=r"^the report holds no ratio: measure more$"):
        draw(written(tmp_path, figure(3.0, unit="s")), tmp_path / "none")
