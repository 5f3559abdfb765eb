"""Traces of torch.jit.trace and torch.export on each simulated chip compute the CPU's results.

On cpu_sim each layer is traced; of the others, whose kernels are the same, a tenth is, and those that are special.
"""

from __future__ import annotations

import os

import pytest
from tests.ops.entries import Entry, Kind, read_entries
from tests.ops.pool import run_entries
from tests.ops.verdict import complaints

PROCESSES = 1
"""A process of the simulated Gaudi holds its card alone."""

WHOLE = ("Conv", "LSTM", "GRU", "RNN", "Attention", "Transformer")
"""The names of the layers whose kernels on the chip replace the operators that torch records."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def entries(with_science: None) -> list[Entry]:
    return read_entries()


@pytest.mark.parametrize("chip", ["cpu_sim", "hpu", "sdaa"])
def test_recorded_layers_compute_other_input(entries: list[Entry], chip: str) -> None:
    """A layer, traced, gives the CPU's nodes, and the CPU's numbers and gradients for other input."""
    kinds: tuple[Kind, ...] = ("trace", "export")
    simulated = {} if chip == "cpu_sim" else {"NORTHBRIDGE_SIMULATE": chip}
    chosen = [
        entry
        for entry in entries
        if entry.kind in kinds and entry.name.startswith("nn.") and "functional" not in entry.name
        if (entry.kind == "trace" and not simulated) or entry.in_tenth or any(word in entry.name for word in WHOLE)
    ]

    done = run_entries(chosen, PROCESSES, environ={**os.environ, **simulated})

    assert complaints(done) == []
    assert sum(each.backwards for each in done) > (50 if simulated else 200)
    assert {each.entry.kind for each in done if each.calls} == set(kinds)
