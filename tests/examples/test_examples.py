"""The examples run as they are, on two ranks, and learn."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.core.conftest import Install, Site, install as install
from tests.engines import needs_engines, with_engines
from tests.scripts import run_command, run_script

from northbridge.lightning.profilers.trace import read_trace
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

pytestmark = pytest.mark.usefixtures("with_science")

EXAMPLES = Path(__file__).parents[2] / "examples"

ABOUT_NORTHBRIDGE = {EXAMPLES / name for name in ("captured_step.py", "float8_inference.py", "recompilation.py")}
BY_NAME_ALONE = sorted({*EXAMPLES.glob("*.py")} - ABOUT_NORTHBRIDGE)


def run(example: str, *arguments: str, folder: Path, environ: dict[str, str] | None = None) -> str:
    """Return what an example prints, which has to succeed."""
    ran = run_script(EXAMPLES / example, *arguments, folder=folder, environ=environ)
    assert ran.status == 0, ran.said
    return ran.said


def accuracy(printed: str) -> float:
    """Return the percentage that stands beside "accuracy on held-out digits"."""
    found = re.findall(r"accuracy on held-out digits\W+([\d.]+)%", printed)
    assert len(found) == 1, printed  # said once, and not by each rank
    return float(found[0])


def test_the_demo_reads_held_out_digits_and_tells_on_what(tmp_path: Path) -> None:
    said = run("digits.py", folder=tmp_path)

    assert accuracy(said) > 95
    table = dict(re.findall(r"^│ (.+?) +│ (.+?) +│$", said, flags=re.M))
    assert table["device"] == "cpu_sim:0"
    assert table["ranks"] == "2"
    assert 0 < float(table["seconds of training"]) < 120
    assert table["simulated"].startswith("yes")
    assert "Warning" not in said
    assert torch.load(tmp_path / table["best checkpoint"], weights_only=True)["state_dict"]


def test_the_fabric_loop_reads_held_out_digits(tmp_path: Path) -> None:
    said = run("fabric_digits.py", folder=tmp_path)

    assert accuracy(said) > 95
    assert "2 ranks, this one on cpu_sim:0" in said


def test_the_command_line_trains_on_what_it_names(tmp_path: Path) -> None:
    flags = ("--trainer.accelerator=cpu_sim", "--trainer.devices=2", "--trainer.max_epochs=2")

    said = run("cli_digits.py", "fit", *flags, folder=tmp_path)

    assert "cpu_sim available: True (simulated), using: 2 devices" in said
    assert [*tmp_path.rglob("*.ckpt")]


@needs_engines
def test_digits_are_read_in_float8_and_without(tmp_path: Path) -> None:
    said = run("float8_training.py", folder=tmp_path, environ=with_engines())

    found = [float(each) for each in re.findall(r"in float(?:8|32): ([\d.]+)%", said)]
    assert len(found) == 2
    assert min(found) > 95
    assert "Training 2 linear layers in float8 with torchao; not in float8: net.5 (128 x 10" in said


@needs_engines
def test_digits_are_quantized_to_float8(tmp_path: Path) -> None:
    said = run("float8_inference.py", folder=tmp_path, environ=with_engines())

    found = [float(each) for each in re.findall(r"(?:in float32|to float8): ([\d.]+)%", said)]
    assert len(found) == 2
    assert abs(found[0] - found[1]) < 2
    assert min(found) > 90
    assert "Wrote the measurements of 2 layers to float8-measurements" in said


def test_the_profile_has_a_table_and_a_trace_of_each_rank(tmp_path: Path) -> None:
    said = run("profiled_digits.py", folder=tmp_path)

    assert re.search(r"device events of cpu_sim rank: 0\nname +count +total +mean +share\n-+\ncpu_sim::", said)
    assert re.search(r"^20 other names .*\n-+\nall +\d+ ", said, flags=re.M)
    traces = [read_trace(path) for path in sorted(tmp_path.glob("profiles/fit-[01]-*.trace.json"))]
    calls = [[event.name for event in trace.events].count("cpu_sim::convolution") for trace in traces]
    assert calls == [6, 6]  # two layers, three steps


def test_padding_to_few_lengths_leaves_few_graphs(tmp_path: Path) -> None:
    said = run("recompilation.py", folder=tmp_path)

    assert re.findall(r"graphs: train (\d+)", said) == ["39", "4"]
    assert "Fix: pad the batches to few lengths" in said


def test_a_captured_step_gives_the_weights_of_the_usual_one(tmp_path: Path) -> None:
    said = run("captured_step.py", folder=tmp_path)

    assert "1 capture, 47 replays\nequal weights: True" in said


@pytest.mark.parametrize("example", BY_NAME_ALONE, ids=lambda path: path.name)
def test_an_example_imports_nothing_of_northbridge(example: Path) -> None:
    names = re.findall(r"^ *(?:from|import) (\w+)", example.read_text(), flags=re.M)

    assert names
    assert not [name for name in names if name.startswith("northbridge")]


# --- vendor_cuda: a third party's plugin, as far as a machine without a GPU shows it, from its wheel to level C0

VENDOR = EXAMPLES / "vendor_cuda"
NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
BUILT: bool = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]  # torch's
WITHOUT_CUDA = pytest.mark.skipif(BUILT, reason="this torch was built with CUDA")


@pytest.fixture
def site(install: Install) -> Site:
    """The plugin, built to a wheel and installed beside ours."""
    return install(VENDOR)


def run_in(site: Site, folder: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in ``folder``, where the plugin is installed."""
    return run_command(*command, folder=folder, environ=site.environ(**environ))


def test_it_is_forty_lines_at_most() -> None:
    assert len((VENDOR / "nb_cuda.py").read_text().splitlines()) <= 40


@pytest.fixture(scope="module")
def report(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The output of the suite for level C1."""
    folder = tmp_path_factory.mktemp("conformance")
    run_in(install(VENDOR), folder, NORTHBRIDGE, "conformance", "nb_cuda", "--level", "C1", "--out", "report")
    return Report.read(folder / "report" / "report.json")


def test_it_earns_level_c0(report: Report) -> None:
    plugin, *_ = report.levels

    assert (plugin.name, plugin.granted, plugin.simulated, plugin.withheld) == ("C0", True, False, ())
    assert {test.verdict for test in report.tests if test.level == "C0"} == {Verdict.PASS}


@WITHOUT_CUDA
def test_above_that_level_it_is_told_what_this_machine_lacks(report: Report) -> None:
    beyond = [test for test in report.tests if test.level == "C1"]

    assert len(beyond) > 100
    assert {(test.verdict, test.evidence) for test in beyond} == {
        (Verdict.NOT_RUN, f"backend 'nb_cuda': torch {torch.__version__} was built without CUDA; install one with CUDA")
    }
    assert not report.levels[1].granted


def test_its_own_tests_pass(site: Site) -> None:
    pytest_of_theirs = (sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "tests/test_nb_cuda.py")

    tested = run_in(site, VENDOR, *pytest_of_theirs)

    assert tested.returncode == 0, tested.stdout


def test_its_ci_runs_files_that_are_there() -> None:
    ci = (VENDOR / ".github" / "workflows" / "ci.yml").read_text()

    named = re.findall(r"[\w/]+\.py\b", ci)

    assert len(named) >= 4
    assert [each for each in named if not (VENDOR / each).is_file()] == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_nothing_is_measured_and_nothing_claimed(site: Site, tmp_path: Path) -> None:
    measured = run_in(site, tmp_path, sys.executable, str(VENDOR / "step_time.py"), "--out", "step_time.json")

    assert measured.returncode == 3, measured.stderr
    assert measured.stdout == (
        f"no GPU: torch {torch.__version__} finds none here. Nothing was measured, and nothing is claimed\n"
    )
    assert not (tmp_path / "step_time.json").exists()


def test_a_measurement_takes_turns_and_divides(site: Site, tmp_path: Path) -> None:
    quick = ("--pair", "cpu_sim", "cpu", "--size", "small", "--steps", "1", "--warm-up", "1", "--rounds", "2")

    measured = run_in(site, tmp_path, sys.executable, str(VENDOR / "step_time.py"), *quick, "--out", "b.json")

    assert re.findall(r"^round (\d) +(\w+) ", measured.stdout, flags=re.M) == [
        ("1", "cpu_sim"),
        ("1", "cpu"),
        ("2", "cpu"),
        ("2", "cpu_sim"),
    ], measured.stderr
    found = json.loads((tmp_path / "b.json").read_text())
    quotients = [a / b for a, b in zip(*found["seconds_a_step"].values(), strict=True)]
    assert found["ratio"] == pytest.approx(sum(quotients) / 2)
    assert measured.returncode == (0 if found["ratio"] <= found["bound"] else 1)
    assert (found["pair"], found["torch"]) == (["cpu_sim", "cpu"], torch.__version__)
