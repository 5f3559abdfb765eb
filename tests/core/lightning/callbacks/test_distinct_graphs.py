from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from northbridge.lightning.callbacks.distinct_graphs import DistinctGraphs, SeenGraph


class Net(nn.Module):
    """Selects rows by their values, calls a layer a number of times, and takes a number and keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.head = Head()

    def forward(self, rows: torch.Tensor, *, times: int = 1, scale: float = 1.0) -> torch.Tensor:
        for _ in range(times):
            rows = self.first(rows)
        out: torch.Tensor = self.head(rows[rows[:, 0] > 0], scale=scale, flag=times > 2)
        return out


class Head(nn.Module):
    def forward(self, rows: torch.Tensor, scale: float, flag: bool) -> torch.Tensor:
        return rows.sum() * scale


@pytest.fixture
def net() -> Net:
    net = Net()
    nn.init.eye_(net.first.weight)
    nn.init.zeros_(net.first.bias)
    return net


def steps(net: Net, *calls: Any, model: nn.Module | None = None, stage: str = "train") -> list[SeenGraph | None]:
    """Return the new graph of each step, which gets rows and options."""
    graphs = DistinctGraphs()
    graphs.attach(model or net)
    found = []
    for number, (rows, options) in enumerate(calls):
        graphs.begin_step(rows)
        net(rows, **options)
        found.append(graphs.end_step(stage, number))
    graphs.detach()
    return found


def rows(*first: float) -> torch.Tensor:
    return torch.tensor([[number, 0.0, 0.0] for number in first])


def told(found: list[SeenGraph | None]) -> list[tuple[str, str] | None]:
    return [(graph.module, graph.inputs) if graph else None for graph in found]


def test_a_new_shape_of_the_batch_is_a_new_graph(net: Net) -> None:
    found = steps(net, (rows(1, 1), {}), (rows(1, 1), {}), (rows(1, 1, 1), {}), (rows(1, 1), {}))

    assert told(found) == [("batch", "(2, 3) float32"), None, ("batch", "(3, 3) float32"), None]
    assert found[0] is not None
    assert (found[0].first_step, found[0].steps) == (0, 3)


def test_a_shape_that_depends_on_values_is_found_in_its_module(net: Net) -> None:
    found = steps(net, (rows(1, 1), {}), (rows(1, -1), {}), (rows(-1, 1), {}))

    assert told(found)[1:] == [("head", "(1, 3) float32"), None]


def test_another_dtype_and_another_mode_are_new_graphs(net: Net) -> None:
    half = net.to(torch.float64)

    assert told(steps(half, (rows(1).double(), {}))) == [("batch", "(1, 3) float64")]
    graphs = DistinctGraphs()
    graphs.attach(half)
    for training in (True, False, True):
        graphs.begin_step(None)
        half.train(training)(rows(1).double())
        graphs.end_step("train", 0)
    assert [graph.module for graph in graphs.graphs.values()] == ["batch", "first (eval)"]


def test_whole_numbers_and_booleans_count_and_floats_do_not(net: Net) -> None:
    found = steps(net, (rows(1), {}), (rows(1), {"scale": 0.5}), (rows(1), {"times": 3}))

    assert told(found)[1:] == [None, ("head", "(1, 3) float32")]


def test_a_call_more_of_a_module_is_a_new_order(net: Net) -> None:
    found = steps(net, (rows(1), {}), (rows(1), {"times": 2}))

    assert told(found)[1:] == [("all", "known inputs, but in another order")]


def test_nested_inputs_and_the_objects_of_a_batch_are_read(net: Net) -> None:
    class Batch:
        def __init__(self, length: int) -> None:
            self.tokens = torch.zeros(2, length)

    graphs = DistinctGraphs()
    found = []
    for batch in (
        {"a": (rows(1), [rows(1, 1)]), "n": None},
        {"a": (rows(1), [rows(1)]), "n": None},
        Batch(3),
        Batch(4),
    ):
        graphs.begin_step(batch)
        found.append(graphs.end_step("train", 0))

    assert told(found) == [
        ("batch", "(1, 3) float32, (2, 3) float32"),
        ("batch", "(1, 3) float32, (1, 3) float32"),
        ("batch", "(2, 3) float32"),
        ("batch", "(2, 4) float32"),
    ]


def test_stages_have_their_own_graphs(net: Net) -> None:
    graphs = DistinctGraphs()
    for stage in ("train", "validate", "train"):
        graphs.begin_step(rows(1))
        graphs.end_step(stage, 0)

    assert [graph.stage for graph in graphs.graphs.values()] == ["train", "validate"]


def test_watching_leaves_nothing_behind(net: Net) -> None:
    before = copy.deepcopy(vars(net.first)["_forward_pre_hooks"])
    steps(net, (rows(1), {}))

    assert vars(net.first)["_forward_pre_hooks"] == before
    assert not vars(net.first)["_forward_pre_hooks_with_kwargs"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit
def test_a_scripted_module_is_left_alone(net: Net) -> None:
    net.add_module("first", torch.jit.script(net.first))

    assert told(steps(net, (rows(1), {}))) == [("batch", "(1, 3) float32")]


def test_after_a_thousand_graphs_none_is_explained() -> None:
    graphs, last = DistinctGraphs(), None
    for length in range(1002):
        graphs.begin_step(torch.empty(length))
        last = graphs.end_step("train", length)

    assert len(graphs.graphs) == 1002
    assert last is not None
    assert (last.module, last.inputs) == ("?", "not looked for after 1000 graphs")
