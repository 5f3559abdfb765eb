"""A tenth of the entries, chosen by their names; `make ops` runs them all. Then the tests' own judgement of them."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.ops import overloads, pool
from tests.ops.calls import difference
from tests.ops.entries import DTYPES, REFUSAL, ROOT, ROUNDED, Entry, Kind, Outcome, read_entries
from tests.ops.exceptions import EXCEPTIONS, complaints, complaints_of_whole
from tests.ops.pool import Finished, run, run_entries
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


OF_TENTH = [*(("operator", dtype, 100) for dtype in DTYPES), ("layer", "", 20), ("optimizer", "", 20)]


@pytest.mark.timeout(900)  # the first of these runs the tenth, which takes a minute and a half of two free cores
@pytest.mark.parametrize(("kind", "dtype", "calls"), [*OF_TENTH, ("overload", "", 600)])
def test_the_tenth_equals_the_cpu_or_both_refuse(tenth: list[Finished], kind: str, dtype: str, calls: int) -> None:
    chosen = [done for done in tenth if done.entry.kind == kind and dtype in ("", done.entry.dtype)]

    assert sum(done.outcome.calls for done in chosen) > calls
    assert complaints(chosen) == []


@pytest.mark.timeout(900)
def test_the_tenth_runs_backward_too(tenth: list[Finished]) -> None:
    assert sum(done.outcome.backwards for done in tenth) > 1000
    assert next(done.outcome.backwards for done in tenth if done.entry == LAYER) > 0


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
    assert sum(each.outcome.backwards for each in done) > (50 if simulated else 200)
    assert {each.entry.kind for each in done if each.outcome.calls} == set(kinds)


# --- The list of entries

LISTED = """
from torch import nn
from tests.ops.layers import CONTAINERS, NOT_LAYERS, kinds
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


# --- The judgement

ADD = Entry("operator", "add", "float32")
GOOD = Finished(ADD, Outcome(5, 3))
WRONG = Finished(ADD, Outcome(5, 3, failed=2, failures=["sample 0: gives 1.0 and not 2.0"]))
REFUSED = Finished(ADD, Outcome(5, 3, failed=2, refused=2, failures=["sample 0: raises NotImplementedError: ..."]))
LISTED_ADD = {"add float32": "a reason"}


def layer(name: str, dtype: str, of: Finished, **changes: Any) -> Finished:
    return Finished(Entry("layer", name, dtype), replace(of.outcome, **changes))


@pytest.mark.parametrize(
    ("done", "listed", "said"),
    [
        (GOOD, {}, None),
        (WRONG, {}, "add float32: 2 of 5 calls fail: sample 0: gives 1.0 and not 2.0"),
        (REFUSED, LISTED_ADD, None),
        (GOOD, LISTED_ADD, "take it off the list"),
        (WRONG, LISTED_ADD, "does worse than refuse"),
        (layer("add", "float32", REFUSED), LISTED_ADD, "no layer may be"),
        (layer("nn.Dropout", "float16", WRONG, rounded=2), {"nn.Dropout float16": "a reason"}, None),
        (layer("nn.Dropout", "float16", WRONG, rounded=1), {"nn.Dropout float16": "a reason"}, "worse than refuse"),
    ],
)
def test_an_entry_is_right_or_an_exception(done: Finished, listed: dict[str, str], said: str | None) -> None:
    lines = complaints([done], listed)

    assert len(lines) == (said is not None)
    assert (said or "") in "".join(lines)


@pytest.mark.parametrize(
    ("done", "listed", "said"),
    [
        (
            layer("nn.Linear", "float32", GOOD, calls=0),
            {},
            ["nn.Linear float32: no call of this layer runs on the CPU"],
        ),
        (
            layer("nn.CTCLoss", "float16", GOOD),
            {},
            ["nn.CTCLoss float16: is listed as one that the CPU does not run"],
        ),
        (REFUSED, {**LISTED_ADD, "gone float32": "another"}, ["gone float32: is listed as an exc", "more than 2%"]),
    ],
)
def test_a_whole_run_needs_each_line_of_the_lists(done: Finished, listed: dict[str, str], said: list[str]) -> None:
    lines = complaints_of_whole([done], listed)

    assert all(words in line for words, line in zip(said, lines, strict=True))
    assert all(EXCEPTIONS.values())


@pytest.mark.parametrize(
    ("other", "rounded"),
    [([1.0 + 2**-10, 0.0], True), ([1.0 + 2**-8, 0.0], False), ([0.0, 0.0], False), ([1.0, 2**-20], False)],
    ids=["a last place", "four last places", "another zero", "no zero"],
)
def test_only_what_differs_in_its_last_places_is_rounding(other: list[float], rounded: bool) -> None:
    said = difference(torch.tensor([1.0, 0.0]).half(), torch.tensor(other).half(), "cpu")

    assert said is not None
    assert said.endswith(ROUNDED) == rounded


def test_only_an_error_that_names_the_operator_is_a_refusal() -> None:
    start = "sample 0: raises NotImplementedError: "

    assert REFUSAL.search(
        start + "aten::mm was called on cpu_sim with a nested tensor, but …, or move it to the CPU first"
    )
    assert not REFUSAL.search(start + "something is not implemented")


def fail_as_named(entry: Entry) -> Outcome:
    """Crash or hang, or do nothing."""
    if entry.name == "crash":
        os.kill(os.getpid(), 11)
    time.sleep(600 * (entry.name == "hang"))
    return Outcome(calls=1)


@pytest.mark.parametrize(
    ("name", "said"), [("crash", "ended its process by SIGSEGV"), ("hang", "ended its process by being killed")]
)
def test_a_process_that_crashes_or_hangs_fails_its_entry(monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.setattr(pool, "LIMIT_S", 3.0 if name == "hang" else 60.0)

    finished = run_entries([Entry("operator", each, "float32") for each in ("abs", name, "mul")], 1, run=fail_as_named)

    (failed,) = (done for done in finished if done.outcome.failed)
    assert failed.entry.name == name
    assert failed.outcome.failures[0].startswith(said)


class Fake:
    """An overload that does what its name says."""

    _schema = torch.ops.aten.relu.default._schema

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        on_chip = x.device.type != "cpu"
        if (self.name == "crash" and on_chip) or self.name == "crash everywhere":
            os.kill(os.getpid(), 11)
        if self.name == "writes beyond" and x.layout is torch.strided and x.numel():
            if on_chip:
                os.kill(os.getpid(), 6)
            reach = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) + 1
            x.as_strided((1,), (1,), x.storage_offset() + reach).fill_(1)
        if self.name == "refused" or (self.name == "refused on the CPU" and not on_chip):
            raise RuntimeError("wrong shape")
        if self.name == "raw":
            raise RuntimeError("false INTERNAL ASSERT FAILED" if on_chip else "wrong shape")
        if self.name == "fresh":
            return x + int.from_bytes(os.urandom(2), "big")
        return x + 1 + (self.name == "wrong" and on_chip)


def run_fakes(entry: Entry) -> Outcome:
    """Run an entry whose overload is a fake."""
    made: Any = Fake
    overloads._overload = made
    return run(entry)


def test_a_process_that_crashes_is_a_fork_of_an_overload() -> None:
    right = ("right", "refused", "crash everywhere", "fresh", "writes beyond")
    wrong = {
        "crash": "4 of 4 calls fail: call 0: ended its process by SIGSEGV",
        "raw": "4 of 0 calls fail: call 0: raises RuntimeError: false INTERNAL ASSERT FAILED",
        "refused on the CPU": "4 of 0 calls fail: call 0: computes what the CPU refuses: RuntimeError: wrong shape",
        "wrong": "call 0: gives",
    }

    finished = run_entries([Entry("overload", name, "drawn") for name in (*right, *wrong)], 1, run=run_fakes)

    said = {line.partition(" drawn: ")[0]: line for line in complaints(finished, {})}
    assert said.keys() == wrong.keys()
    assert all(words in said[name] for name, words in wrong.items())
