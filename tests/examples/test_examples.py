"""The examples run as they are, on two ranks, and learn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tests.engines import needs_engines, with_engines
from tests.scripts import run_script

from northbridge.lightning.profilers.trace import read_trace

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
