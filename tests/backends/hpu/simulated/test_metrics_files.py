"""The files of the vendor's metrics, one for each rank."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.backends.simulation.processes import Run

STEPS = """
for size in (3, 3, 4):
    torch.ones(size, device="hpu")
    htcore.mark_step()
"""


def entries(file: Path) -> list[tuple[str, str, Any]]:
    found = json.loads(file.read_text())
    return [(each["metric_name"], each["triggered_by"], each["statistics"].get("TotalNumber")) for each in found]


@pytest.mark.shows("a file of metrics has one entry a metric and event")
def test_a_process_writes_its_metrics_at_its_end(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "metrics.json"
    run(STEPS, PT_HPU_METRICS_FILE=str(file), PT_HPU_LAZY_MODE="0")

    assert entries(file) == [
        ("graph_compilation", "process_exit", 2),
        ("cpu_fallback", "process_exit", 0),
        ("memory_defragmentation", "process_exit", 0),
    ]


def test_a_rank_has_its_own_file_and_overwrites_none(run: Run, tmp_path: Path) -> None:
    for _ in range(2):
        run(STEPS, PT_HPU_METRICS_FILE=str(tmp_path / "metrics.json"), RANK="3", PT_HPU_LAZY_MODE="0")

    assert sorted(path.name for path in tmp_path.glob("metrics*")) == ["metrics-rank3.json", "metrics-rank3.json.1"]


def test_each_marker_and_each_new_graph_is_an_entry(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    environ = {
        "HABANA_PT_METRICS_FILE": str(file),
        "HABANA_PT_METRICS_DUMP_TRIGGERS": "mark_step,metric_change",
        "HABANA_PT_METRICS_FILE_FORMAT": "json",
    }
    run(STEPS, PT_HPU_LAZY_MODE="1", **environ)

    compiled = [(trigger, number) for name, trigger, number in entries(file) if name == "graph_compilation"]
    assert compiled == [
        ("metric_change", 1),
        ("mark_step", 1),
        ("mark_step", 1),
        ("metric_change", 2),
        ("mark_step", 2),
    ]


def test_a_new_graph_is_an_entry_in_eager_mode_too(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    run(STEPS, PT_HPU_METRICS_FILE=str(file), PT_HPU_METRICS_DUMP_TRIGGERS="metric_change", PT_HPU_LAZY_MODE="0")

    assert entries(file) == [("graph_compilation", "metric_change", 1), ("graph_compilation", "metric_change", 2)]


def test_without_a_card_nothing_is_written(run: Run, tmp_path: Path) -> None:
    run("", PT_HPU_METRICS_FILE=str(tmp_path / "metrics.json"))

    assert list(tmp_path.glob("metrics*")) == []


def test_text_has_the_same_in_lines(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    run(STEPS, PT_HPU_METRICS_FILE=str(file), PT_HPU_METRICS_FILE_FORMAT="text", PT_HPU_LAZY_MODE="0")

    lines = file.read_text().splitlines()
    assert lines[:2] == ["Metric name: graph_compilation", "Triggered by: process_exit"]
    assert lines[3:5] == ["Statistics:", "\tTotalNumber: 2"]


def test_a_user_writes_them_at_any_time(hpu: ModuleType, tmp_path: Path) -> None:
    hpu.metrics.metrics_dump(str(tmp_path / "now.json"))
    hpu.metrics.metrics_dump(str(tmp_path / "now.txt"), format="text")

    assert [trigger for _, trigger, _ in entries(tmp_path / "now.json")] == ["user"] * 3
    assert "Triggered by: user" in (tmp_path / "now.txt").read_text()


@pytest.mark.parametrize(("variable", "word"), [("FILE_FORMAT", "yaml"), ("DUMP_TRIGGERS", "sometimes")])
def test_an_unknown_word_is_an_error_of_the_import(run: Run, tmp_path: Path, variable: str, word: str) -> None:
    environ = {"PT_HPU_METRICS_FILE": str(tmp_path / "metrics.json"), f"PT_HPU_METRICS_{variable}": word}
    program = "try:\n    import habana_frameworks.torch\nexcept KeyError as error:\n    print(error)"

    assert run(program, first="import torch\n", PT_HPU_AUTOLOAD="0", **environ) == f"'{word}'\n"
