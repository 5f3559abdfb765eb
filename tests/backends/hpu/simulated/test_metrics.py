"""The vendor's metrics: what they count on the simulated card, and when; and its tool that counts by module."""

from __future__ import annotations

import csv
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.backends.simulation.processes import Run

COUNT = """
import torch
import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpu.metrics import metric_global
def compiled():
    return dict(metric_global("graph_compilation").stats())["TotalNumber"]
def add(size):
    return torch.ones(size, device="hpu") + 1
"""


def numbers(metric: Any) -> dict[str, Any]:
    return dict(metric.stats())


@pytest.mark.shows("a graph is compiled when it runs for the first time")
def test_a_new_shape_is_compiled_and_a_known_one_is_not(hpu: ModuleType) -> None:
    torch.ones(3, device="hpu").mul(2)
    with hpu.metrics.metric_localcontext("graph_compilation") as known:
        torch.ones(3, device="hpu").mul(2)
    with hpu.metrics.metric_localcontext("graph_compilation") as new:
        torch.ones(1237, device="hpu").mul(2)
    torch.ones(1238, device="hpu")  # after its end

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


def test_the_metrics_of_the_process_are_there_from_the_import_on(hpu: ModuleType) -> None:
    assert hpu.metrics.metric_global("graph_compilation").name() == "graph_compilation"
    assert numbers(hpu.metrics.metric_global("cpu_fallback")) == {"TotalNumber": 0, "FallbackOps": {}}
    assert numbers(hpu.metrics.metric_global("memory_defragmentation"))["TotalSuccessful"] == 0
    assert hpu.metrics.metric_global("recipe_cache") is None
    with pytest.raises(hpu.metrics.MetricNotFound, match="doesn't exist"), hpu.metrics.metric_localcontext("speed"):
        pass


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


@pytest.mark.parametrize("lazy", ["0", "1"])
def test_its_tool_tells_which_modules_were_compiled_when(run: Run, tmp_path: Path, lazy: str) -> None:
    """In lazy mode each module is a graph of its own."""
    program = f"""
    from habana_frameworks.torch.utils.experimental import detect_recompilation_auto_model
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU()).to("hpu")
    model = detect_recompilation_auto_model(model, waittime=0, csv_out={str(tmp_path / "out")!r})
    for size in (17, 17, 19):
        model(torch.ones(size, 3, device="hpu"))
    model.analyse_dynamicity()
    """
    run(program, PT_HPU_LAZY_MODE=lazy)

    steps, counts = (list(csv.DictReader((tmp_path / f"out_{file}.csv").read_text().splitlines())) for file in (1, 2))
    names = ["Net/0", "Net/1", "Net"]
    assert [(row["Step"], row["Recompiling modules"]) for row in steps] == [(s, name) for s in "02" for name in names]
    assert {row["New in"] for row in steps} == {"True"}
    assert steps[0]["Class"] == "torch.nn.modules.linear.Linear"
    assert steps[0]["Location"].endswith("linear.py")
    assert {row["Module name"]: row["Recompile count"] for row in counts} == dict.fromkeys(names, "2")
