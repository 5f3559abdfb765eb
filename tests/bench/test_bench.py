"""`make bench`: the statistics, the passes, the verdicts, the report and the exit code, on figures that are made up."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from bench import __main__ as command, child, report
from bench.figure import Figure, Measurement
from bench.job import Job
from bench.passes import measure
from bench.row import Compared, Row, Timed
from bench.rows import ROWS
from bench.sides import HOST, LIGHTNING_RANKS, OPERATIONS, RANKS, TRAINERS, Ask, Pair, Side

RATIO = Row("sort", "sorting: ours ÷ theirs", "×", 1.05, Timed(lambda: 1.0))
PAIR = Pair(("ours", "theirs"), Side("worker"))
Fake = Callable[..., None]


def figure(*values: float, row: Row = RATIO) -> Figure:
    return Figure(row, Measurement(values))


def spread(rounds: int) -> list[float]:
    """Evenly from 1 to 2."""
    return [1 + number / (rounds - 1) for number in range(rounds)]


def test_the_value_is_the_median_and_the_spread_the_quartiles() -> None:
    measured = figure(1.0, 9.0, 2.0, 3.0, 4.0)
    how = Compared(PAIR, ({}, {}), shown=(1e3, "ms"))
    compared = Figure(replace(RATIO, how=how), Measurement([1.0] * 3, [[2.0, 3.0, 9.0], [1.0, 2.0, 4.0]]))

    assert (measured.value, measured.quartiles) == (3.0, (2.0, 4.0))
    assert (figure(7.0).quartiles, figure(7.0).interval) == ((7.0, 7.0), (7.0, 7.0))
    assert compared.parts == {"ours": "3000 ms", "theirs": "2000 ms"}
    with pytest.raises(ValueError, match=r"^sort: nothing was measured$"):
        figure()


def test_the_interval_is_narrower_with_more_rounds() -> None:
    few, many = figure(*spread(6)), figure(*spread(600))

    for each in (few, many):
        assert each.interval[0] < 1.5 < each.interval[1]
    assert many.interval[1] - many.interval[0] < (few.interval[1] - few.interval[0]) / 4
    assert figure(*[1.0 + number / 1000 for number in range(11)], 9.0).interval[1] < 1.02  # one outlier


def test_a_goal_is_met_where_the_interval_begins_below_it() -> None:
    known = replace(RATIO, missed="no kernel of its own")

    assert (figure(1.05).verdict, figure(1.0501).verdict) == ("met", "MISSED")
    assert figure(1.04, 1.06, 1.06, 1.04, 1.06, 1.06, 1.06).verdict == "met"  # though its median is above
    assert figure(99.0, row=replace(RATIO, goal=None)).verdict == "no goal"
    assert (figure(99.0, row=known).verdict, figure(1.0, row=known).verdict) == ("missed, known", "met")


class TestPasses:
    @pytest.fixture
    def told(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Let both sides answer the seconds that they are asked for, and return which was opened or asked."""
        order: list[str] = []

        @contextmanager
        def opened(_: Pair) -> Iterator[tuple[Ask, ...]]:
            def ask(name: str) -> Ask:
                def answer(question: Mapping[str, Any]) -> dict[str, Any]:
                    order.append(name)
                    return {"seconds": next(question["seconds"])}

                return answer

            order.append("|")
            yield tuple(map(ask, "ab"))

        monkeypatch.setattr(Pair, "open", opened)
        return order

    def test_sides_alternate_and_the_warm_up_does_not_count(self, told: list[str]) -> None:
        answers = [{"seconds": iter([99.0, *each])} for each in ([2.0, 2.0, 20.0], [1.0, 1.0, 10.0])]
        row = replace(RATIO, how=Compared(PAIR, (answers[0], answers[1]), rounds=3))
        measured: dict[str, Measurement] = {}

        next(measure([row], measured, quick=False))

        assert "".join(told) == "|" + "ab" + "ab" + "ba" + "ab"
        # The machine was ten times slower in the last round: for both.
        assert measured["sort"] == Measurement([2.0, 2.0, 2.0], [[2.0, 2.0, 20.0], [1.0, 1.0, 10.0]])

    def test_a_row_that_is_well_known_is_not_measured_again(self) -> None:
        noisy = iter([1.0, 1.2, 1.0, 1.2, 1.0, 1.2, *[1.1] * 99])
        rows = [
            Row("quiet", "", "s", None, Timed(lambda: 1.0)),
            Row("noisy", "", "s", None, Timed(lambda: next(noisy))),
            Row("noisy, below its goal", "", "s", 2.5, Timed(iter(spread(6)).__next__)),
            Row("noisy, but long", "", "s", None, Timed(iter(spread(6)).__next__, once=True)),
        ]

        passed = [row.name for row in measure(rows, {}, quick=False)]

        assert passed[:4] == [row.name for row in rows]
        assert passed.count("noisy") > 2
        assert len(passed) - passed.count("noisy") == 3


class TestTheCommand:
    @pytest.fixture
    def fake(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
        """Replace the rows by made-up ones, and the report's place."""
        monkeypatch.setattr(command, "write", lambda each: report.write(each, tmp_path / "report.json"))
        monkeypatch.setattr(command, "REPORT", tmp_path / "report.json")

        def fake(**values: Callable[[], float]) -> None:
            made_up = [replace(RATIO, name=name, how=Timed(each)) for name, each in values.items()]
            monkeypatch.setattr(command, "ROWS", [*made_up, replace(RATIO, name="another")])

        return fake

    def test_report_holds_figures_versions_and_commit(self, fake: Fake, tmp_path: Path) -> None:
        fake(sort=lambda: 1.02)

        assert command.main(["--only", "sort"]) == 0

        written = json.loads((tmp_path / "report.json").read_text())
        assert set(written) == {"date", "commit", "quick", "versions", "machine", "figures"}
        assert set(written["versions"]) == {"python", "northbridge", "torch", "lightning"}
        assert written["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
        assert written["machine"]["cores"] >= 1
        assert (written["quick"], written["commit"] != "") == (False, True)
        assert written["figures"] == {
            "sort": {
                "what": "sorting: ours ÷ theirs",
                "unit": "×",
                **dict.fromkeys(("value", "lower", "upper", "first_quartile", "third_quartile"), 1.02),
                "values": [1.02] * 3,
                "sides": [],
                "goal": 1.05,
                "verdict": "met",
                "missed": "",
                "parts": {},
            }
        }

    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (KeyboardInterrupt(), 130, "stopped; what was measured is kept: make bench GO_ON=1 goes on"),
            (child.MeasurementError("it died"), 3, "could not be measured: search: it died\nwhat was measured is kept"),
        ],
        ids=["Ctrl-C", "what could not be measured"],
    )
    def test_a_run_that_was_stopped_goes_on_with_what_is_missing(
        self, fake: Fake, capsys: pytest.CaptureFixture[str], tmp_path: Path, error: Exception, code: int, said: str
    ) -> None:
        def stop() -> float:
            raise error

        fake(sort=lambda: 1.0, search=stop)
        assert command.main([]) == code
        assert said in capsys.readouterr().err

        fake(sort=lambda: 1.04, search=lambda: 1.1)
        assert command.main(["--only", "sort", "--only", "search", "--go-on"]) == 1
        assert "MISSED" in capsys.readouterr().out
        figures = json.loads((tmp_path / "report.json").read_text())["figures"]
        assert {name: each["values"] for name, each in figures.items()} == {"sort": [1.0] * 3, "search": [1.1] * 3}


class TestChildren:
    def test_child_gets_no_setting_that_changes_the_figures(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("NORTHBRIDGE_DISABLE", "NORTHBRIDGE_CPU_SIM_CACHE", "MASTER_PORT", "PYTHONDONTWRITEBYTECODE"):
            monkeypatch.setenv(name, "1")

        found = child.environment({"ADDED": "yes"})

        assert (found["NORTHBRIDGE_CPU_SIM_CACHE"], found["ADDED"]) == ("1", "yes")
        assert not {"NORTHBRIDGE_DISABLE", "MASTER_PORT", "PYTHONDONTWRITEBYTECODE"} & set(found)

    def test_a_child_that_fails_or_hangs_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(child.MeasurementError, match=r"(?s)ended with 1:.*ZeroDivisionError"):
            child.python("1 / 0")
        monkeypatch.setattr(child, "LIMIT_S", 0.1)
        with pytest.raises(child.MeasurementError, match=r"did not end within 0\.1 s"):
            child.python("import signal; signal.pause()")
        with (
            child.conversation(child.python_command("import sys; sys.exit('no such device')")) as ask,
            pytest.raises(child.MeasurementError, match=r"(?s)ended when it was asked .*no such device"),
        ):
            ask({"device": "x"})


class TestWorkers:
    """That they do what they are asked, on both devices; not how long it takes."""

    def test_one_pair_of_processes_runs_every_operation(self) -> None:
        rows = [row for row in ROWS if isinstance(row.how, Compared) and row.how.pair is OPERATIONS]

        with OPERATIONS.open() as sides:
            for row in rows:
                assert isinstance(row.how, Compared)
                for ask, question in zip(sides, row.how.questions, strict=True):
                    assert ask({**question, "calls": 2})["seconds"] > 0

    def test_two_ranks_run_every_collective_and_step(self) -> None:
        with RANKS.open() as sides:
            for ask in sides:
                for name in ("all-reduce", "reduce-scatter", "all-gather"):
                    assert ask({"collective": name, "bytes": 4096, "times": 2})["seconds"] > 0
                for kind in ("ddp", "fsdp2"):
                    assert ask({"step": kind, "task": "mlp", "times": 1})["seconds"] > 0

    @pytest.mark.parametrize(
        ("side", "job", "answer"),
        [
            (HOST.first, Job("one-parameter", "host", 2, threads=1), "step_seconds"),
            (TRAINERS.first, Job("one-parameter", "sdaa", 1), "trainer_seconds"),
            (LIGHTNING_RANKS.first, Job("mlp", "cpu_sim", 2, devices=2, threads=1, sync_dist=True), "log_seconds"),
        ],
        ids=["the host's own backend", "the simulated Teco card", "two ranks"],
    )
    def test_a_training_is_timed_again_and_again(self, side: Side, job: Job, answer: str) -> None:
        with side.open() as ask:
            assert all(ask(asdict(job))[answer] > 0 for _ in range(2))
