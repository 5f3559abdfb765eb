from __future__ import annotations

from northbridge.lightning.callbacks.distinct_graphs import SeenGraph
from northbridge.lightning.callbacks.recompilation import graph_table


def test_a_row_for_each_graph_and_a_line_for_each_other_count() -> None:
    graphs = [
        SeenGraph("train", 0, "batch", "(8, 32) int64", steps=12),
        SeenGraph("validate", 120, "net.head", "(3, 5) float32"),
    ]

    assert graph_table(graphs, {"cpu_fallback": 3.0}, 13).splitlines() == [
        "RecompilationMonitor: 13 steps of training; graphs: train 1, validate 1",
        "stage     first step  steps  module    inputs",
        "train              0     12  batch     (8, 32) int64",
        "validate         120      1  net.head  (3, 5) float32",
        "cpu_fallback: 3",
    ]


def test_twenty_graphs_are_shown_and_the_rest_is_counted() -> None:
    lines = graph_table([SeenGraph("train", step, "batch", "()") for step in range(25)], {}, 25).splitlines()

    assert len(lines) == 1 + 1 + 20 + 1
    assert lines[-1] == "… and 5 more, the last at step 24"


def test_without_a_graph_there_is_one_line() -> None:
    assert graph_table([], {}, 0) == "RecompilationMonitor: 0 steps of training; graphs: none"
