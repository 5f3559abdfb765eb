"""`make bench`: the statistics, the bounds, the verdicts, the report and the exit code, on figures that are made up."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from bench import __main__ as command, child, report
from bench.bounds import BOUNDS, Bound
from bench.figure import Figure, Measurement
from bench.job import Job, worker
from bench.options import OPTIONS, Option
from bench.plugin import announce
from bench.report import Surroundings
from bench.rounds import difference, interleave, ratio
from bench.table import amount, table
from rich.console import Console

RATIO = Bound("sort", "sorting: ours ÷ theirs", "×", 1.05)
LIMITS = {
    "op-add-4": (2.3, "×"),
    "op-add-million": (1.05, "×"),
    "op-view": (1.1, "×"),
    "op-mm-64": (1.3, "×"),
    "backward": (None, "×"),
    "step-mlp": (1.10, "×"),
    "step-convnet": (1.05, "×"),
    "step-transformer": (1.05, "×"),
    "step-ddp": (1.05, "×"),
    "step-captured": (0.9, "×"),
    "step-hpu": (1.05, "×"),
    "step-hpu-ddp": (1.05, "×"),
    "step-sdaa": (1.05, "×"),
    "step-sdaa-ddp": (1.05, "×"),
    "all-reduce-4kib": (1.2, "×"),
    "all-reduce-1mib": (1.05, "×"),
    "all-reduce-16mib": (1.05, "×"),
    "reduce-scatter-4kib": (1.2, "×"),
    "reduce-scatter-1mib": (1.05, "×"),
    "reduce-scatter-16mib": (1.05, "×"),
    "all-gather-4kib": (1.2, "×"),
    "all-gather-1mib": (1.05, "×"),
    "all-gather-16mib": (1.05, "×"),
    "step-fsdp2": (1.10, "×"),
    "step-zero-2": (1.10, "×"),
    "memory": (1.10, "×"),
    "strategy": (1.02, "×"),
    "recompilation-watch": (1.02, "×"),
    "sync-dist": (1.10, "×"),
    "checkpoint-save": (1.05, "×"),
    "checkpoint-load": (1.05, "×"),
    "checkpoint-memory": (1.10, "×"),
    "step-16-mixed": (1.10, "×"),
    "step-bf16-mixed": (1.10, "×"),
    **{option.name: (None, "×") for option in OPTIONS},
    "step-one-parameter": (None, "×"),
    "autoload": (2.0, "ms"),
    "list": (0.3, "s"),
    "discovery": (1.5, "×"),
    "start": (0.3, "s"),
    "compile": (90.0, "s"),
}
Fake = Callable[..., None]


def figure(*values: float, bound: Bound = RATIO) -> Figure:
    return Figure(bound, Measurement(values, {"ours": "3 ms", "theirs": "2 ms"}))


class TestStatistics:
    def test_the_value_is_the_median_and_the_spread_the_quartiles(self) -> None:
        measured = figure(1.0, 9.0, 2.0, 3.0, 4.0)

        assert (measured.value, measured.quartiles) == (3.0, (2.0, 4.0))

    def test_one_round_has_no_spread(self) -> None:
        assert figure(7.0).quartiles == (7.0, 7.0)

    def test_no_round_is_an_error_that_names_the_figure(self) -> None:
        with pytest.raises(ValueError, match=r"^sort: nothing was measured$"):
            figure()

    def test_a_ratio_is_taken_round_by_round(self) -> None:
        # The machine was ten times slower in the last round: for both.
        measured = ratio([(2.0, 1.0), (2.0, 1.0), (20.0, 10.0)], ("ours", "theirs"), "ms", 1e3)

        assert measured.values == [2.0, 2.0, 2.0]
        assert measured.parts == {"ours": "2000 ms", "theirs": "1000 ms"}

    def test_a_difference_is_taken_round_by_round(self) -> None:
        measured = difference([(3.0, 1.0), (6.0, 5.0)], ("load", "import"), "s")

        assert measured.values == [2.0, 1.0]
        assert measured.parts == {"load": "4.5 s", "import": "3 s"}


class TestInterleaving:
    def test_sides_alternate_and_the_warm_up_does_not_count(self) -> None:
        order: list[str] = []

        def side(name: str) -> Callable[[], float]:
            def measure() -> float:
                order.append(name)
                return float(len(order))

            return measure

        pairs = interleave(side("a"), side("b"), 3)

        assert "".join(order) == "ab" + "ab" + "ba" + "ab"
        assert pairs == [(3.0, 4.0), (6.0, 5.0), (7.0, 8.0)]


class TestVerdicts:
    @pytest.mark.parametrize(("value", "verdict"), [(1.05, "within"), (1.0501, "OVER")])
    def test_the_bound_itself_is_within(self, value: float, verdict: str) -> None:
        assert figure(value).verdict == verdict

    def test_a_figure_without_a_bound_is_never_over(self) -> None:
        assert figure(99.0, bound=Bound("sort", "sorting", "×", None)).verdict == "no bound"

    def test_one_figure_over_its_bound_makes_the_exit_code_1(self) -> None:
        assert command.exit_code([figure(1.0), figure(1.0)]) == 0
        assert command.exit_code([figure(1.0), figure(1.2)]) == 1

    def test_the_bounds_are_those_that_were_promised(self) -> None:
        assert {bound.name: (bound.limit, bound.unit) for bound in BOUNDS} == LIMITS

    def test_every_bound_is_measured_by_something(self) -> None:
        assert list(command.MEASUREMENTS) == [bound.name for bound in BOUNDS]


class TestTheTable:
    def test_a_row_says_figure_spread_bound_and_verdict(self) -> None:
        text = _print(figure(1.0, 1.2, 1.3, 1.4, 1.5), quick=False)

        for part in ("sorting: ours ÷ theirs", "1.300 ×", "1.200 × – 1.400 ×", "≤ 1.050 ×", "OVER", "ours 3 ms"):
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
        """Replace measurements by made-up values, and the report's place."""
        monkeypatch.setattr(command, "write", lambda each: report.write(each, tmp_path / "report.json"))
        monkeypatch.setattr(command, "REPORT", tmp_path / "report.json")

        def fake(**values: float) -> None:
            made_up = {name: _measured(value) for name, value in values.items()}
            monkeypatch.setattr(command, "MEASUREMENTS", made_up)

        return fake

    def test_report_holds_figures_versions_and_commit(self, fake: Fake, tmp_path: Path) -> None:
        fake(autoload=1.5)

        code = command.main(["--only", "autoload"])

        written = json.loads((tmp_path / "report.json").read_text())
        assert code == 0
        assert set(written) == {"date", "commit", "quick", "versions", "machine", "figures"}
        assert set(written["versions"]) == {"python", "northbridge", "torch", "lightning"}
        assert written["machine"]["cores"] >= 1
        assert written["quick"] is False
        assert written["figures"] == {
            "autoload": {
                "what": "time that autoload adds to `import torch`",
                "unit": "ms",
                "value": 1.5,
                "first_quartile": 1.5,
                "third_quartile": 1.5,
                "values": [1.5, 1.5, 1.5],
                "bound": 2.0,
                "verdict": "within",
                "parts": {"of": "made up"},
            }
        }

    def test_a_figure_over_its_bound_ends_it_with_1(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        fake(autoload=1.5, list=0.4)

        assert command.main(["--only", "autoload", "--only", "list"]) == 1
        assert "OVER" in capsys.readouterr().out

    def test_a_quick_run_is_marked_in_the_report(self, fake: Fake, tmp_path: Path) -> None:
        fake(autoload=1.5)

        command.main(["--quick", "--only", "autoload"])

        assert json.loads((tmp_path / "report.json").read_text())["quick"] is True

    def test_what_cannot_be_measured_ends_it_with_3_and_the_reason(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*, quick: bool) -> Measurement:
            raise child.MeasurementError("the child ended with 9")

        monkeypatch.setattr(command, "MEASUREMENTS", {"list": fail})

        assert command.main(["--only", "list"]) == 3
        assert "list could not be measured: the child ended with 9" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (KeyboardInterrupt(), 130, "stopped at list; what was measured before is kept: make bench GO_ON=1"),
            (child.MeasurementError("it died"), 3, "list could not be measured: it died\nwhat was measured before"),
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
        def stop(*, quick: bool) -> Measurement:
            raise error

        fake(autoload=1.5)
        monkeypatch.setitem(command.MEASUREMENTS, "list", stop)
        both = ["--only", "autoload", "--only", "list"]

        assert command.main(both) == code
        assert said in capsys.readouterr().err

        fake(autoload=9.0, list=0.25)
        assert command.main([*both, "--go-on"]) == 0
        figures = json.loads((tmp_path / "report.json").read_text())["figures"]
        assert {name: each["value"] for name, each in figures.items()} == {"autoload": 1.5, "list": 0.25}

    def test_measurements_of_something_else_are_not_used(self, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
        fake(autoload=1.5)
        command.main(["--quick", "--only", "autoload"])

        assert command.main(["--only", "autoload", "--go-on"]) == 2
        assert "cannot be gone on with: quick was True and is False; measure all of it" in capsys.readouterr().err

    def test_a_name_that_is_not_measured_is_wrong_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ending:
            command.main(["--only", "speed"])

        assert ending.value.code == 2
        assert "invalid choice: 'speed'" in capsys.readouterr().err


def _measured(value: float) -> Callable[..., Measurement]:
    return lambda quick: Measurement([value] * 3, {"of": "made up"})


class TestChildren:
    def test_child_gets_no_setting_that_changes_the_figures(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NORTHBRIDGE_DISABLE", "1")
        monkeypatch.setenv("NORTHBRIDGE_CPU_SIM_CACHE", "/kept")
        monkeypatch.setenv("MASTER_PORT", "1234")

        found = child.environment({"ADDED": "yes"})

        assert found["NORTHBRIDGE_CPU_SIM_CACHE"] == "/kept"
        assert found["ADDED"] == "yes"
        assert not {"NORTHBRIDGE_DISABLE", "MASTER_PORT"} & set(found)

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

    def test_one_process_runs_every_operation(self) -> None:
        with child.conversation([sys.executable, "-m", "bench.operation_worker"]) as ask:
            for operation in ("add-4", "add-million", "view", "mm-64", "backward"):
                for device in ("cpu", "cpu_sim"):
                    assert ask({"operation": operation, "device": device, "calls": 2})["seconds"] > 0

    @pytest.mark.parametrize("device", ["cpu", "cpu_sim"])
    def test_two_ranks_run_every_collective_and_step(self, device: str) -> None:
        with child.conversation([sys.executable, "-m", "bench.rank_worker", device]) as ask:
            for name in ("all-reduce", "reduce-scatter", "all-gather"):
                assert ask({"collective": name, "bytes": 4096, "times": 2})["seconds"] > 0
            for kind in ("ddp", "fsdp2"):
                assert ask({"step": kind, "task": "mlp", "times": 1})["seconds"] > 0

    def test_the_hosts_own_backend_trains(self, tmp_path: Path) -> None:
        announce(tmp_path, "host", "bench.host_backend")
        with worker({"PYTHONPATH": os.pathsep.join([str(tmp_path), str(child.ROOT)])}) as ask:
            assert ask(Job("one-parameter", "host", 2, threads=1)).step_seconds > 0


def test_an_options_folder_is_put_in() -> None:
    option = Option("recorder", "with the recorder", {"SWITCH": "1", "FOLDER": "{folder}/records"})

    assert option.environ("/tmp/new") == {"SWITCH": "1", "FOLDER": "/tmp/new/records"}


def test_the_surroundings_are_this_machine_and_this_commit() -> None:
    found = Surroundings.look()

    assert found.cpu
    assert found.commit
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))
