"""The cost of many ranks, on figures that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import child, many_ranks, ranks_plot
from bench.many_ranks import COUNTS, Cost, cost, main
from bench.ranks_plot import draw

COST = Cost(first_step_seconds=9.5, step_seconds=0.55, cpu_seconds=0.0143, private_megabytes=24.6)


def test_drawing_names_each_accelerator(tmp_path: Path) -> None:
    draw({"cpu_sim": [COST] * len(COUNTS), "cpu": [COST]}, tmp_path / "ranks.svg")

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
