"""The vendor's metrics: what they count on the simulated card, when, and the files that they are written to."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.processes import Run

COUNT = (
    GAUDI.imports
    + """
from habana_frameworks.torch.hpu.metrics import metric_global
def compiled():
    return dict(metric_global("graph_compilation").stats())["TotalNumber"]
def add(size):
    return torch.ones(size, device="hpu") + 1
"""
)


def numbers(metric: Any) -> dict[str, Any]:
    return dict(metric.stats())


@pytest.mark.shows("a graph is compiled when it runs for the first time")
def test_a_new_shape_is_compiled_and_a_known_one_is_not(hpu: ModuleType) -> None:
    torch.ones(3, device="hpu").mul(2)
    with hpu.metrics.metric_localcontext("graph_compilation") as known:
        torch.ones(3, device="hpu").mul(2)
    with hpu.metrics.metric_localcontext("graph_compilation") as new:
        torch.ones(1237, device="hpu").mul(2)

    assert numbers(known) == {"TotalNumber": 0, "TotalTime": 0, "AvgTime": 0}
    assert new.name() == "graph_compilation"
    assert numbers(new)["TotalNumber"] == 2  # the fill and the product


def test_a_whole_number_is_part_of_a_graph_and_others_are_inputs(hpu: ModuleType) -> None:
    ones = torch.ones(5, 7, device="hpu")
    torch.softmax(ones, 0)
    torch.add(ones, ones, alpha=0.25)
    with hpu.metrics.metric_localcontext("graph_compilation") as same:
        torch.add(ones, ones, alpha=0.75)
    with hpu.metrics.metric_localcontext("graph_compilation") as new:
        torch.softmax(ones, 1)

    assert numbers(same)["TotalNumber"] == 0
    assert numbers(new)["TotalNumber"] == 1


def test_a_metric_counts_from_start_to_stop_until_reset(hpu: ModuleType) -> None:
    with hpu.metrics.metric_localcontext("graph_compilation") as metric:
        metric.stop()
        torch.ones(11, 3, device="hpu")
        assert numbers(metric)["TotalNumber"] == 0
        metric.start()
        torch.ones(11, 5, device="hpu")
        assert numbers(metric)["TotalNumber"] == 1
        metric.reset()
        assert numbers(metric)["TotalNumber"] == 0
    torch.ones(11, 7, device="hpu")

    assert numbers(metric)["TotalNumber"] == 0


def test_the_metrics_of_the_process_are_there_from_the_import_on(hpu: ModuleType) -> None:
    assert [hpu.metrics.metric_global(name).name() for name in ("graph_compilation", "cpu_fallback")]
    assert numbers(hpu.metrics.metric_global("cpu_fallback")) == {"TotalNumber": 0, "FallbackOps": {}}
    assert numbers(hpu.metrics.metric_global("memory_defragmentation"))["TotalSuccessful"] == 0
    assert hpu.metrics.metric_global("recipe_cache") is None


def test_an_unknown_metric_has_no_context(hpu: ModuleType) -> None:
    with pytest.raises(hpu.metrics.MetricNotFound, match="doesn't exist"), hpu.metrics.metric_localcontext("speed"):
        pass


def test_the_details_are_the_graphs(hpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_METRICS_GC_DETAILS", "1")
    with hpu.metrics.metric_localcontext("graph_compilation") as metric:
        torch.ones(13, 3, device="hpu")

    ((graph, seconds),) = numbers(metric)["recipe"]
    assert int(graph) > 0
    assert seconds == 0


def test_hits_and_misses_are_counted_if_a_variable_asks(run: Run) -> None:
    program = """
    cache = metric_global("recipe_cache")
    add(3); add(3); add(4)
    found = dict(cache.stats())
    print(found["TotalHit"], found["TotalMiss"], sorted(found["RecipeHit"].values()))
    """
    assert run(program, first=COUNT, PT_HPU_ENABLE_CACHE_METRICS="1", PT_HPU_LAZY_MODE="0") == "2 4 [1, 1]\n"


def test_in_lazy_mode_a_graph_ends_at_a_marker(run: Run) -> None:
    program = """
    found = []
    for size in (3, 3, 4):
        add(size)
        found.append(compiled())
        htcore.mark_step()
        found.append(compiled())
    htcore.mark_step()
    print(found, compiled())
    """
    assert run(program, first=COUNT, PT_HPU_LAZY_MODE="1") == "[0, 1, 1, 1, 1, 2] 2\n"


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


@pytest.mark.parametrize(("variable", "word"), [("FILE_FORMAT", "yaml"), ("DUMP_TRIGGERS", "sometimes")])
def test_an_unknown_word_is_an_error_of_the_import(run: Run, tmp_path: Path, variable: str, word: str) -> None:
    environ = {"PT_HPU_METRICS_FILE": str(tmp_path / "metrics.json"), f"PT_HPU_METRICS_{variable}": word}
    program = "try:\n    import habana_frameworks.torch\nexcept KeyError as error:\n    print(error)"

    assert run(program, first="import torch\n", PT_HPU_AUTOLOAD="0", **environ) == f"'{word}'\n"
