"""A tenth of the entries, chosen by their names; `make ops` runs them all."""

from __future__ import annotations

import os

import pytest
from tests.ops.entries import DTYPES, ROOT, Entry, Kind, read_entries
from tests.ops.pool import Finished, run_entries
from tests.ops.verdict import complaints
from tests.scripts import run_python

PROCESSES = 2
KINDS = ("operator", "overload", "layer", "optimizer")
LAYER = Entry("layer", "nn.LSTM", "float32")


@pytest.fixture(scope="module")
def entries(with_science: None) -> list[Entry]:  # torch's database holds more where scipy is
    return read_entries()


@pytest.fixture(scope="module")
def tenth(entries: list[Entry]) -> list[Finished]:
    chosen = [entry for entry in entries if entry.kind in KINDS and (entry.in_tenth or entry == LAYER)]
    return run_entries(chosen, PROCESSES)


@pytest.mark.timeout(900)  # the first of these runs the tenth, which takes a minute and a half of two free cores
@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_equal_the_cpu_bit_for_bit(tenth: list[Finished], dtype: str) -> None:
    chosen = [done for done in tenth if done.entry.kind == "operator" and done.entry.dtype == dtype]

    assert sum(done.calls for done in chosen) > 100
    assert complaints(chosen) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["layer", "optimizer"])
def test_layers_and_optimizers_give_the_cpus_results_to_the_bit(tenth: list[Finished], kind: str) -> None:
    chosen = [done for done in tenth if done.entry.kind == kind]

    assert sum(done.calls for done in chosen) > 20
    assert complaints(chosen) == []


@pytest.mark.timeout(900)
def test_overloads_equal_the_cpu_or_both_refuse(tenth: list[Finished]) -> None:
    chosen = [done for done in tenth if done.entry.kind == "overload"]

    assert sum(done.calls for done in chosen) > 600
    assert complaints(chosen) == []


@pytest.mark.timeout(900)
def test_the_tenth_runs_backward_too(tenth: list[Finished]) -> None:
    assert sum(done.backwards for done in tenth) > 1000
    assert next(done.backwards for done in tenth if done.entry == LAYER) > 0


# --- What torch.jit.trace and torch.export record

WHOLE = ("Conv", "LSTM", "GRU", "RNN", "Attention", "Transformer")
"""The names of the layers whose kernels on the chip replace the operators that torch records."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("chip", ["cpu_sim", "hpu", "sdaa"])
def test_recorded_layers_compute_other_input(entries: list[Entry], chip: str) -> None:
    """A layer, traced, gives the CPU's nodes, and the CPU's numbers and gradients for other input.

    On cpu_sim each layer is traced; of the others, whose kernels are the same, a tenth is, and those that are special.
    """
    kinds: tuple[Kind, ...] = ("trace", "export")
    simulated = {} if chip == "cpu_sim" else {"NORTHBRIDGE_SIMULATE": chip}
    chosen = [
        entry
        for entry in entries
        if entry.kind in kinds and entry.name.startswith("nn.") and "functional" not in entry.name
        if (entry.kind == "trace" and not simulated) or entry.in_tenth or any(word in entry.name for word in WHOLE)
    ]

    # One process: the simulated Gaudi's holds its card alone.
    done = run_entries(chosen, 1, environ={**os.environ, **simulated})

    assert complaints(done) == []
    assert sum(each.backwards for each in done) > (50 if simulated else 200)
    assert {each.entry.kind for each in done if each.calls} == set(kinds)


# --- The list of entries

LISTED = """
from torch import nn
from tests.ops.layers import kinds
from tests.ops.unlisted_layers import CONTAINERS, NOT_LAYERS
every = {x for x in vars(nn).values() if isinstance(x, type) and issubclass(x, nn.Module)}
print(sorted(x.__name__ for x in every - kinds() - CONTAINERS - set(NOT_LAYERS)))
"""


def test_every_layer_of_torch_nn_is_an_entry() -> None:
    assert run_python("-W", "ignore", "-c", LISTED, folder=ROOT).stdout == "[]\n"


def test_the_tenth_is_chosen_by_name_alone() -> None:
    names = [str(i) for i in range(2000)]

    chosen = [name for name in names if Entry("operator", name, "float32").in_tenth]

    assert chosen == [name for name in names if Entry("layer", name, "float32").in_tenth]
    assert 140 < len(chosen) < 260
