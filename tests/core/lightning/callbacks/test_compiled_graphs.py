from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from northbridge.lightning.callbacks.distinct_graphs import DistinctGraphs
from northbridge.lightning.callbacks.recompilation import CompiledGraphs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch.compile imports


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(rows)
        return out


def test_hooks_of_the_watch_are_not_in_its_table() -> None:
    """The first test: torch tries to compile the hook once in a process."""
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].compile(backend="eager")
    graphs, compiled = DistinctGraphs(), CompiledGraphs()
    graphs.attach(model)
    model(torch.ones(2, 3))
    graphs.detach()

    assert [each.module.partition(" ")[0] for each in compiled.new(0)] == ["forward"]


def test_each_compilation_has_its_function_and_reason() -> None:
    net = torch.compile(Scaled(), backend="eager", dynamic=False)
    compiled = CompiledGraphs()
    found = [(net(torch.ones(size, 3)), compiled.new(step))[1] for step, size in enumerate((2, 2, 4))]

    assert [len(each) for each in found] == [1, 0, 1]
    assert compiled.count == 2
    first, second = found[0][0], found[2][0]
    assert (first.stage, first.first_step, first.inputs) == ("torch.compile", 0, "compiled for the first time")
    assert first.module.startswith("forward (test_compiled_graphs.py:")
    assert second.first_step == 2
    assert "expected 2, actual 4" in second.inputs


def test_what_was_compiled_before_does_not_count() -> None:
    torch.compile(Scaled(), backend="eager")(torch.ones(2, 3))
    compiled = CompiledGraphs()

    assert compiled.new(0) == []
    assert compiled.count == 0


def test_watching_a_compiled_model_compiles_nothing_more() -> None:
    counts = []
    for watched in (False, True):
        torch.compiler.reset()
        net: Any = torch.compile(Scaled(), backend="eager")
        model = nn.Sequential(net)
        graphs, compiled = DistinctGraphs(), CompiledGraphs()
        if watched:
            graphs.attach(model)
        for size in (2, 4, 6, 6):
            graphs.begin_step(torch.ones(size, 3))
            net(torch.ones(size, 3))
            graphs.end_step("train", size)
            compiled.new(0)
        counts.append(compiled.count)
        graphs.detach()

    assert counts[0] == counts[1] == 2
