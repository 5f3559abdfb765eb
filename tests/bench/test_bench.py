"""`make bench`: the statistics, the goals, the verdicts, the report and the exit code, on figures that are made up."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path

import pytest
from bench import __main__ as command, child, passes, report
from bench.figure import Figure, Measurement
from bench.job import Job
from bench.passes import measure
from bench.plugin import announce
from bench.report import Surroundings
from bench.row import Compared, Row, Timed
from bench.rows import ROWS
from bench.sides import HOST, LIGHTNING_RANKS, OPERATIONS, RANKS, TRAINERS, Ask, Pair, Side
from bench.table import amount, table
from rich.console import Console

RATIO = Row("sort", "sorting: ours ÷ theirs", "×", 1.05, Timed(lambda: 1.0))
Fake = Callable[..., None]


def figure(*values: float, row: Row = RATIO) -> Figure:
    return Figure(row, Measurement(values))


class TestStatistics:
    def test_the_value_is_the_median_and_the_spread_the_quartiles(self) -> None:
        measured = figure(1.0, 9.0, 2.0, 3.0, 4.0)

        assert (measured.value, measured.quartiles) == (3.0, (2.0, 4.0))

    def test_one_round_has_no_spread(self) -> None:
        assert (figure(7.0).quartiles, figure(7.0).interval) == ((7.0, 7.0), (7.0, 7.0))

    def test_no_round_is_an_error_that_names_the_figure(self) -> None:
        with pytest.raises(ValueError, match=r"^sort: nothing was measured$"):
            figure()

    def test_the_interval_of_the_median_is_narrower_with_more_rounds(self) -> None:
        few, many = figure(*_spread(6)), figure(*_spread(600))

        for each in (few, many):
            assert each.interval[0] < 1.5 < each.interval[1]
        assert many.interval[1] - many.interval[0] < (few.interval[1] - few.interval[0]) / 4

    def test_one_outlier_in_twelve_rounds_is_outside_the_interval(self) -> None:
        assert figure(*[1.0 + number / 1000 for number in range(11)], 9.0).interval[1] < 1.02

    def test_each_side_has_its_median_in_its_unit(self) -> None:
        how = Compared(Pair(("ours", "theirs"), Side("worker")), ({}, {}), shown=(1e3, "ms"))

        measured = Figure(replace(RATIO, how=how), Measurement([1.0] * 3, [[2.0, 3.0, 9.0], [1.0, 2.0, 4.0]]))

        assert measured.parts == {"ours": "3000 ms", "theirs": "2000 ms"}


def _spread(rounds: int) -> list[float]:
    """Evenly from 1 to 2."""
    return [1 + number / (rounds - 1) for number in range(rounds)]


class _Told:
    """Sides that answer what they are told to, and remember in which order they were asked."""

    def __init__(self, ours: Iterator[float], theirs: Iterator[float]) -> None:
        self.order = ""
        self.opened = 0
        self._answers = {"a": ours, "b": theirs}

    def pair(self, monkeypatch: pytest.MonkeyPatch) -> Pair:
        def ask(name: str) -> Ask:
            def answer(_: object) -> dict[str, float]:
                self.order += name
                return {"seconds": next(self._answers[name])}

            return answer

        @contextmanager
        def opened(_: Pair) -> Iterator[tuple[Ask, Ask]]:
            self.opened += 1
            yield ask("a"), ask("b")

        monkeypatch.setattr(Pair, "open", opened)
        return Pair(("ours", "theirs"), Side("worker"))


class TestPasses:
    def test_sides_alternate_and_the_warm_up_does_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = _Told(iter([99.0, 2.0, 2.0, 20.0]), iter([99.0, 1.0, 1.0, 10.0]))
        row = replace(RATIO, how=Compared(told.pair(monkeypatch), ({}, {}), rounds=3))
        measured: dict[str, Measurement] = {}

        next(measure([row], measured, quick=False))

        assert told.order == "ab" + "ab" + "ba" + "ab"
        # The machine was ten times slower in the last round: for both.
        assert measured["sort"] == Measurement([2.0, 2.0, 2.0], [[2.0, 2.0, 20.0], [1.0, 1.0, 10.0]])

    def test_a_peak_of_memory_is_asked_once_of_new_processes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = _Told(iter([3.0] * 9), iter([2.0] * 9))
        row = replace(RATIO, how=Compared(told.pair(monkeypatch), ({}, {}), rounds=1, once=True))

        passed = list(measure([row], {}, quick=False))

        assert (told.opened, told.order) == (2, "ab" * 2)
        assert passed == [row] * 2

    def test_neighbours_share_the_processes_of_their_pair(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = _Told(iter([1.0] * 99), iter([1.0] * 99))
        how = Compared(told.pair(monkeypatch), ({}, {}))
        rows = [replace(RATIO, name="one", how=how), replace(RATIO, name="two", how=how)]

        passed = [row.name for row in measure(rows, {}, quick=False)]

        assert passed == ["one", "two"] * 2
        assert told.opened == 2

    def test_a_row_that_is_well_known_is_not_measured_again(self) -> None:
        noisy = iter([1.0, 1.2, 1.0, 1.2, 1.0, 1.2, *[1.1] * 99])
        rows = [
            Row("quiet", "", "s", None, Timed(lambda: 1.0)),
            Row("noisy", "", "s", None, Timed(lambda: next(noisy))),
            Row("noisy, below its goal", "", "s", 2.5, Timed(iter(_spread(6)).__next__)),
        ]

        passed = [row.name for row in measure(rows, {}, quick=False)]

        assert passed[:3] == [row.name for row in rows]
        assert passed.count("quiet") == passed.count("noisy, below its goal") == 1
        assert passed.count("noisy") > 2

    def test_processes_are_compared_in_two_passes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = _Told(iter([1.0] * 99), iter([1.0] * 99))
        row = replace(RATIO, how=Compared(told.pair(monkeypatch), ({}, {})))

        assert list(measure([row], {}, quick=False)) == [row, row]

    def test_a_pass_of_what_takes_long_has_one_round(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(passes, "LONG_S", 0.0)
        told = _Told(iter([1.0] * 99), iter([1.0] * 99))
        row = replace(RATIO, how=Compared(told.pair(monkeypatch), ({}, {}), rounds=3))
        measured: dict[str, Measurement] = {}

        assert list(measure([row], measured, quick=False)) == [row, row]
        assert measured["sort"].values == [1.0, 1.0]

    def test_after_the_budget_only_the_first_pass_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(passes, "BUDGET_S", 0.0)
        noisy = Timed(iter(_spread(99)).__next__)
        rows = [Row(name, "", "s", None, noisy) for name in ("one", "two", "three")]

        assert [row.name for row in measure(rows, {}, quick=False)] == ["one", "two", "three", "one"]

    def test_a_quick_run_makes_one_round(self) -> None:
        measured: dict[str, Measurement] = {}

        assert list(measure([RATIO], measured, quick=True)) == [RATIO]
        assert measured["sort"].values == [1.0]

    def test_what_takes_a_minute_is_measured_once(self) -> None:
        row = replace(RATIO, how=Timed(lambda: 1.0, once=True))

        assert list(measure([row], {}, quick=False)) == [row]

    def test_more_rounds_of_a_row_are_added_to_what_it_has(self) -> None:
        measured = {"sort": Measurement([1.0, 1.2])}

        assert list(measure([RATIO], measured, quick=False))[:1] == [RATIO]
        assert measured["sort"].values[:5] == [1.0, 1.2, 1.0, 1.0, 1.0]


class TestVerdicts:
    def test_a_goal_is_met_where_the_interval_begins_at_or_below_it(self) -> None:
        assert figure(1.05).verdict == "met"
        assert figure(1.0501).verdict == "MISSED"
        # Its median is above the goal, and its interval begins below.
        assert figure(1.04, 1.06, 1.06, 1.04, 1.06, 1.06, 1.06).verdict == "met"

    def test_a_figure_without_a_goal_never_misses_it(self) -> None:
        assert figure(99.0, row=replace(RATIO, goal=None)).verdict == "no goal"

    def test_a_miss_whose_reason_is_known_says_so(self) -> None:
        assert figure(99.0, row=replace(RATIO, missed="no kernel of its own")).verdict == "missed, known"
        assert figure(1.0, row=replace(RATIO, missed="no kernel of its own")).verdict == "met"


class TestTheTable:
    def test_a_row_says_figure_spread_bound_and_verdict(self) -> None:
        text = _print(figure(1.1, 1.2, 1.3, 1.4, 1.5), quick=False)

        for part in ("sorting: ours ÷ theirs", "1.300 ×", "1.100 × – 1.500 ×", "≤ 1.050 ×", "MISSED"):
            assert part in text
        assert "quick" not in text

    def test_a_quick_run_says_so(self) -> None:
        assert "quick: few rounds" in _print(figure(1.0), quick=True)

    def test_an_amount_is_readable_in_its_unit(self) -> None:
        assert [amount(1.04567, "×"), amount(0.12345, "s"), amount(63.21, "s"), amount(1.2345, "ms")] == [
            "1.046 ×",
            "0.123 s",
            "63.2 s",
            "1.23 ms",
        ]


def _print(measured: Figure, *, quick: bool) -> str:
    console = Console(width=200, record=True, file=StringIO())
    console.print(table([measured], quick=quick))
    return console.export_text()


class TestTheCommand:
    @pytest.fixture
    def fake(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
        """Replace the rows by made-up ones, and the report's place."""
        monkeypatch.setattr(command, "write", lambda each: report.write(each, tmp_path / "report.json"))
        monkeypatch.setattr(command, "REPORT", tmp_path / "report.json")

        def fake(**values: float) -> None:
            made_up = [replace(RATIO, name=name, how=Timed(lambda each=each: each)) for name, each in values.items()]  # type: ignore[misc]
            monkeypatch.setattr(command, "ROWS", [*made_up, replace(RATIO, name="another")])

        return fake

    def test_report_holds_figures_versions_and_commit(self, fake: Fake, tmp_path: Path) -> None:
        fake(sort=1.02)

        code = command.main(["--only", "sort"])

        written = json.loads((tmp_path / "report.json").read_text())
        assert code == 0
        assert set(written) == {"date", "commit", "quick", "versions", "machine", "figures"}
        assert set(written["versions"]) == {"python", "northbridge", "torch", "lightning"}
        assert written["machine"]["cores"] >= 1
        assert written["quick"] is False
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

    def test_a_missed_goal_ends_it_with_1(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        fake(sort=1.0, search=1.1)

        assert command.main(["--only", "sort", "--only", "search"]) == 1
        assert "MISSED" in capsys.readouterr().out

    def test_a_quick_run_is_marked_in_the_report(self, fake: Fake, tmp_path: Path) -> None:
        fake(sort=1.0)

        command.main(["--quick", "--only", "sort"])

        assert json.loads((tmp_path / "report.json").read_text())["quick"] is True

    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (KeyboardInterrupt(), 130, "stopped; what was measured is kept: make bench GO_ON=1 goes on"),
            (child.MeasurementError("it died"), 3, "could not be measured: search: it died\nwhat was measured is kept"),
        ],
        ids=["Ctrl-C", "what could not be measured"],
    )
    def test_a_run_that_was_stopped_goes_on_with_what_is_missing(
        self,
        fake: Fake,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
        error: BaseException,
        code: int,
        said: str,
    ) -> None:
        def stop() -> float:
            raise error

        fake(sort=1.0)
        monkeypatch.setattr(
            command, "ROWS", [replace(RATIO, how=Timed(lambda: 1.0)), replace(RATIO, name="search", how=Timed(stop))]
        )

        assert command.main([]) == code
        assert said in capsys.readouterr().err

        fake(sort=1.04, search=1.02)
        assert command.main(["--only", "sort", "--only", "search", "--go-on"]) == 0
        figures = json.loads((tmp_path / "report.json").read_text())["figures"]
        assert {name: each["values"] for name, each in figures.items()} == {
            "sort": [1.0] * 3,
            "search": [1.02] * 3,
        }

    def test_measurements_of_something_else_are_not_used(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        fake(sort=1.0)
        command.main(["--quick", "--only", "sort"])

        assert command.main(["--only", "sort", "--go-on"]) == 2
        assert "cannot be gone on with: quick was True and is False; measure all of it" in capsys.readouterr().err

    def test_a_name_that_is_not_measured_is_wrong_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ending:
            command.main(["--only", "speed"])

        assert ending.value.code == 2
        assert "invalid choice: 'speed'" in capsys.readouterr().err


class TestChildren:
    def test_child_gets_no_setting_that_changes_the_figures(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NORTHBRIDGE_DISABLE", "1")
        monkeypatch.setenv("NORTHBRIDGE_CPU_SIM_CACHE", "/kept")
        monkeypatch.setenv("MASTER_PORT", "1234")
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

        found = child.environment({"ADDED": "yes"})

        assert found["NORTHBRIDGE_CPU_SIM_CACHE"] == "/kept"
        assert found["ADDED"] == "yes"
        assert not {"NORTHBRIDGE_DISABLE", "MASTER_PORT", "PYTHONDONTWRITEBYTECODE"} & set(found)

    def test_a_child_that_fails_is_an_error_with_what_it_said(self) -> None:
        with pytest.raises(child.MeasurementError, match=r"(?s)ended with 1:.*ZeroDivisionError"):
            child.python("1 / 0")

    def test_a_child_that_hangs_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(child, "LIMIT_S", 0.1)

        with pytest.raises(child.MeasurementError, match=r"did not end within 0\.1 s"):
            child.python("import signal; signal.pause()")

    def test_child_that_ends_without_an_answer_is_an_error(self) -> None:
        with (
            child.conversation(child.python_command("import sys; sys.exit('no such device')")) as ask,
            pytest.raises(child.MeasurementError, match=r"(?s)ended when it was asked .*no such device"),
        ):
            ask({"device": "x"})

    def test_the_port_of_ranks_is_free_for_no_other_process(self) -> None:
        tell = (
            'import json, os; input(); print(json.dumps({"port": int(os.environ["MASTER_PORT"])}), flush=True); input()'
        )
        with child.conversation(child.python_command(tell), ranks=2) as ask, socket.socket() as other:
            port = ask({})["port"]
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))

    def test_this_process_imports_no_torch(self) -> None:
        # Its memory would count as the peak of every child that it starts.
        said = child.run([sys.executable, "-c", "import sys, bench.__main__; print('torch' in sys.modules)"])

        assert said == "False\n"

    def test_an_announced_plugin_is_installed(self, tmp_path: Path) -> None:
        announce(tmp_path, "acme", "northbridge_acme")

        said = child.python(
            "import northbridge; print([p for p in northbridge.installed() if p.name == 'acme'])",
            environ={"PYTHONPATH": str(tmp_path)},
        )

        assert said == "[<Plugin 'acme' in 'northbridge_acme', from northbridge-acme 1.0>]\n"


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

    def test_the_hosts_own_backend_trains(self) -> None:
        with HOST.open() as (ask, _):
            assert ask(asdict(Job("one-parameter", "host", 2, threads=1)))["step_seconds"] > 0

    def test_a_trainer_on_the_simulated_teco_card_is_timed(self) -> None:
        with TRAINERS.open() as (ask, _):
            assert ask(asdict(Job("one-parameter", "sdaa", 1)))["trainer_seconds"] > 0

    def test_two_ranks_train_again_and_again_with_lightning(self) -> None:
        job = Job("mlp", "cpu_sim", 2, devices=2, threads=1, sync_dist=True)
        with LIGHTNING_RANKS.first.open() as ask:
            assert all(ask(asdict(job))["log_seconds"] > 0 for _ in range(2))


def test_each_start_of_a_side_has_a_new_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    @contextmanager
    def note(_: list[str], *, ranks: int, environ: dict[str, str]) -> Iterator[None]:
        given.append((ranks, Path(environ["FOLDER"])))
        assert given[-1][1].parent.is_dir()
        yield

    monkeypatch.setattr(child, "conversation", note)
    side = Side("rank_worker", 2, {"FOLDER": "{folder}/records"})

    for _ in range(2):
        with side.open():
            pass

    (ranks, first), (_, second) = given
    assert ranks == 2
    assert first != second
    assert not first.parent.exists()


def test_the_surroundings_are_this_machine_and_this_commit() -> None:
    found = Surroundings.look()

    assert found.cpu
    assert found.commit
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_machines_of_one_name_that_multiply_otherwise_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(report, "_CPUINFO", file)
    found = []
    for flags in ("fpu avx2 avx512f avx512_bf16", "fpu avx2", "fpu"):
        file.write_text(f"processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: {flags}\n\n")
        found.append(Surroundings.look().cpu)

    assert found == ["AMD EPYC (avx512_bf16)", "AMD EPYC (avx2)", "AMD EPYC"]
