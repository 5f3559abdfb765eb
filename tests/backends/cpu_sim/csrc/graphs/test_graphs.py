"""Graphs of the simulated chip, as torch.accelerator.Graph."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import northbridge


@pytest.fixture
def given() -> Tensor:
    northbridge.load("cpu_sim")
    return torch.arange(4.0, device="cpu_sim")


def test_replay_runs_again_on_the_same_memory(given: Tensor) -> None:
    graph = torch.accelerator.Graph()
    with graph:
        view = (given * 2)[1:]
        view.add_(1)
        copy = torch.empty(3, device="cpu_sim").copy_(view)

    given.fill_(5)
    graph.replay()

    assert view.tolist() == copy.tolist() == [11, 11, 11]


def test_replay_draws_the_numbers_of_a_run_without_graph(given: Tensor) -> None:
    graph = torch.accelerator.Graph()
    with graph:
        found = torch.nn.functional.dropout(given + 1, 0.5)

    torch.manual_seed(3)
    expected = [torch.nn.functional.dropout(given + 1, 0.5).tolist() for _ in range(3)]
    torch.manual_seed(3)
    for each in expected:
        graph.replay()
        assert found.tolist() == each


def test_capture_has_the_work_of_other_threads(given: Tensor) -> None:
    results: list[Tensor] = []
    graph = torch.accelerator.Graph()
    with graph:
        other = threading.Thread(target=lambda: results.append(given + 1))
        other.start()
        other.join()

    given.zero_()
    graph.replay()

    assert results[0].tolist() == [1, 1, 1, 1]


def test_graph_keeps_the_memory_that_it_uses(given: Tensor) -> None:
    graph = torch.accelerator.Graph()
    with graph:
        result = (given + 1) * 2
    held = torch.accelerator.memory_allocated()
    graph.reset()

    assert torch.accelerator.memory_allocated() < held
    assert result.tolist() == [2, 4, 6, 8]


def test_number_on_the_cpu_is_frozen(given: Tensor) -> None:
    number = torch.tensor(2.0)
    graph = torch.accelerator.Graph()
    with graph:
        result = given * number
    number.fill_(7)
    graph.replay()

    assert result.tolist() == [0, 2, 4, 6]


def test_pinned_memory_is_read_by_each_replay(given: Tensor) -> None:
    pinned = torch.ones(4).pin_memory()
    graph = torch.accelerator.Graph()
    with graph:
        given.copy_(pinned, non_blocking=True)
    pinned.fill_(6)
    graph.replay()

    assert given.tolist() == [6, 6, 6, 6]


def _capture_another(_: Tensor) -> None:
    torch.accelerator.Graph().capture_begin()


REFUSED: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "item": (lambda given: given.sum().item(), "a value was read on the host, as item() does"),
    "cpu": (lambda given: given.cpu(), "a tensor was copied from cpu_sim:0 to cpu"),
    "unpinned": (lambda given: given.copy_(torch.ones(4)), "a tensor was copied from cpu to cpu_sim:0"),
    "nonzero": (lambda given: given.nonzero(), "aten::nonzero needs values of its input on the host"),
    "mask": (lambda given: given[given > 0], "aten::index.Tensor needs values of its input on the host"),
    "indices": (lambda given: given[torch.tensor([1, 2])], "aten::index.Tensor has indices on the CPU"),
    "sparse": (lambda given: given.to_sparse(), "has a sparse tensor"),
    "synchronize": (lambda _: torch.accelerator.synchronize(), "the host waits for the device"),
    "resize": (lambda given: given.resize_(100), "a tensor was resized in place"),
    "nested": (_capture_another, "cpu_sim:0 is capturing a graph, and a process captures one at a time"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_capture_refuses(given: Tensor, case: str) -> None:
    call, said = REFUSED[case]
    graph = torch.accelerator.Graph()

    with pytest.raises(RuntimeError) as caught, graph:
        call(given)

    assert said in str(caught.value)
    assert "Fix: " in str(caught.value)
    assert (given + 1).tolist() == [1, 2, 3, 4]  # the chip can be used
    if case != "nested":
        with pytest.raises(RuntimeError, match="this graph's capture failed: "):
            graph.replay()


def test_verbs_in_a_wrong_order_are_errors(given: Tensor) -> None:
    graph = torch.accelerator.Graph()
    for verb, said in ((graph.replay, "has captured nothing"), (graph.capture_end, "is not capturing")):
        with pytest.raises(RuntimeError, match=f"this graph of cpu_sim {said}. Fix: "):
            verb()
    with graph:
        given.add_(1)
    with pytest.raises(RuntimeError, match=r"has captured work already. Fix: reset\(\) it"):
        graph.capture_begin()
    graph.reset()
    with pytest.raises(RuntimeError, match="has captured nothing"):
        graph.replay()


def test_capture_must_end_on_its_stream(given: Tensor) -> None:
    graph = torch.accelerator.Graph()
    graph.capture_begin()
    with torch.Stream(), pytest.raises(RuntimeError, match="Fix: end it on the stream where it began"):
        graph.capture_end()
    assert (given + 1).tolist() == [1, 2, 3, 4]


def test_dump_lists_the_operators(given: Tensor, tmp_path: Path) -> None:
    graph = torch.accelerator.Graph()
    with graph:
        (given + 1).relu_()
    graph.debug_dump(str(tmp_path / "graph"))

    assert (tmp_path / "graph").read_text().split() == ["aten::add.Tensor", "aten::relu_"]
