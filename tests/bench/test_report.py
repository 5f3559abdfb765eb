"""A report of `make bench`: reading it again, its page and its pictures, on figures that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import child, many_ranks, page, ranks_plot
from bench.many_ranks import COUNTS, Cost, cost, main
from bench.page import text
from bench.plot import draw
from bench.recorded import ReportFileError, read


def figure(value: float, **more: Any) -> dict[str, Any]:
    """Return a ratio, or what ``more`` makes of it."""
    ends = dict.fromkeys(("lower", "upper", "first_quartile", "third_quartile"), value)
    made_up = {"unit": "×", **ends, "goal": 1.05, "verdict": "met", "missed": "", "values": [value], "sides": []}
    return {"what": "sorting: ours ÷ theirs", "value": value, "parts": {}, **made_up, **more}


def written(folder: Path, *figures: dict[str, Any]) -> Path:
    """Write a report, and return its file."""
    report = {
        "date": "2026-11-22T08:00:00+00:00",
        "commit": "0123456",
        "quick": False,
        "machine": {"cpu": "a CPU", "cores": 2, "load_before": 0.1},
        "versions": {"torch": "2.13.0+cpu"},
        "figures": {str(number): each for number, each in enumerate(figures)},
    }
    file = folder / "report.json"
    file.write_text(json.dumps(report))
    return file


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


def test_where_nothing_was_measured_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ReportFileError, match=r"report\.json: measure first, by make bench$"):
        read(tmp_path / "report.json")


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


COST = Cost(first_step_seconds=9.5, step_seconds=0.55, cpu_seconds=0.0143, private_megabytes=24.6)


def test_drawing_names_each_accelerator(tmp_path: Path) -> None:
    ranks_plot.draw({"cpu_sim": [COST] * len(COUNTS), "cpu": [COST]}, tmp_path / "ranks.svg")

    text = (tmp_path / "ranks.svg").read_text()
    assert "cpu_sim" in text
    assert "CPU time of a rank in a step, ms" in text


def test_the_table_has_a_row_for_each_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(many_ranks, "cost", lambda *_: COST)
    drawn: list[int] = []
    monkeypatch.setattr(ranks_plot, "draw", lambda costs: drawn.extend(map(len, costs.values())))

    assert main() == 0
    assert drawn == [len(COUNTS)] * 2
    assert "| 64 | cpu_sim | 9.5 s | 550 ms | 14.3 ms | 25 MB |" in capsys.readouterr().out


def test_the_last_line_of_a_training_is_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    said = '{"first_step_seconds": 9.5, "step_seconds": 0.55, "cpu_seconds": 0.0143, "private_megabytes": 24.6}'
    monkeypatch.setattr(child, "run", lambda *_, **__: f"Lightning says something\n{said}\n")

    assert cost(3, "made_up") == COST


def test_a_training_that_fails_draws_no_picture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> Cost:
        raise child.MeasurementError("rank 3 is gone")

    monkeypatch.setattr(many_ranks, "cost", fail)

    assert main() == 3
    assert capsys.readouterr().err == "could not be measured: rank 3 is gone\n"


def test_the_help_measures_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> Cost:
        raise AssertionError("measured")

    monkeypatch.setattr(many_ranks, "cost", fail)

    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "2 to 64 ranks" in capsys.readouterr().out
