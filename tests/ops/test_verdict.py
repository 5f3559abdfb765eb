"""The tests' own judgement: what is told of entries that crash, differ, refuse, or are listed for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.ops import pool
from tests.ops.calls import REFUSAL
from tests.ops.compare import ROUNDED, difference
from tests.ops.entries import Entry, Kind
from tests.ops.exceptions import EXCEPTIONS
from tests.ops.pool import Finished, run_entries
from tests.ops.verdict import complaints, complaints_of_whole

GOOD = Finished(Entry("operator", "add", "float32"), 5, 3, 0, 0, 0, (), 0.1)
WRONG = replace(GOOD, failed=2, failures=("sample 0: gives 1.0 and not 2.0",))
REFUSED = replace(GOOD, failed=2, refused=2, failures=("sample 0: raises NotImplementedError: ...",))


def test_an_entry_that_differs_is_told_with_how() -> None:
    assert complaints([GOOD, WRONG], {}) == ["add float32: 2 of 5 calls fail: sample 0: gives 1.0 and not 2.0"]


def test_a_listed_entry_may_refuse() -> None:
    assert complaints([REFUSED], {"add float32": "a reason"}) == []


def test_a_layer_that_draws_may_differ_by_rounding_and_no_more() -> None:
    layer = replace(WRONG, entry=Entry("layer", "nn.Dropout", "float16"))
    listed = {"nn.Dropout float16": "a reason"}

    assert complaints([replace(layer, rounded=2)], listed) == []
    assert "does worse than refuse" in complaints([replace(layer, rounded=1)], listed)[0]


@pytest.mark.parametrize(
    ("other", "rounded"),
    [([1.0 + 2**-10, 0.0], True), ([1.0 + 2**-8, 0.0], False), ([0.0, 0.0], False), ([1.0, 2**-20], False)],
    ids=["a last place", "four last places", "another zero", "no zero"],
)
def test_only_what_differs_in_its_last_places_is_rounding(other: list[float], rounded: bool) -> None:
    said = difference(torch.tensor([1.0, 0.0]).half(), torch.tensor(other).half(), "cpu")

    assert said is not None
    assert said.endswith(ROUNDED) == rounded


def test_a_layer_of_which_nothing_was_run_is_told() -> None:
    (line,) = complaints_of_whole([replace(GOOD, entry=Entry("layer", "nn.Linear", "float32"), calls=0)], {})

    assert "nn.Linear float32: no call of this layer runs on the CPU" in line


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (GOOD, "take it off the list"),
        (WRONG, "does worse than refuse"),
        (replace(REFUSED, entry=Entry("layer", "add", "float32")), "no layer may be"),
    ],
)
def test_listed_entry_that_passes_or_fails_is_told(done: Finished, said: str) -> None:
    (line,) = complaints([done], {"add float32": "a reason"})

    assert said in line


def test_a_list_that_is_too_long_or_names_nothing_is_told() -> None:
    lines = complaints_of_whole([REFUSED], {"add float32": "a reason", "gone float32": "another"})

    assert any("gone float32" in line and "no such entry" in line for line in lines)
    assert any("more than 2%" in line for line in lines)


def test_a_layer_that_is_said_not_to_run_and_runs_is_told() -> None:
    (line,) = complaints_of_whole([replace(GOOD, entry=Entry("layer", "nn.CTCLoss", "float16"))], {})

    assert "nn.CTCLoss float16: is listed as one that the CPU does not run, but it does" in line


def test_every_exception_has_a_reason() -> None:
    assert all(reason for reason in EXCEPTIONS.values())


def test_only_an_error_that_names_the_operator_is_a_refusal() -> None:
    start = "sample 0: raises NotImplementedError: "

    assert REFUSAL.search(
        start + "aten::mm was called on cpu_sim with a nested tensor, but …, or move it to the CPU first"
    )
    assert not REFUSAL.search(start + "something is not implemented")
    assert not REFUSAL.search("sample 0: gives 1.0 and not 2.0")


@pytest.mark.parametrize(
    ("name", "said"), [("crash", "ended its process by SIGSEGV"), ("hang", "ended its process by being killed")]
)
def test_a_process_that_crashes_or_hangs_fails_its_entry(monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    program = (
        "import json, os, sys, time\n"
        "for line in sys.stdin:\n"
        "    name = json.loads(line)[1]\n"
        "    if name == 'crash': os.kill(os.getpid(), 11)\n"
        "    if name == 'hang': time.sleep(600)\n"
        "    answer = dict(calls=1, backwards=0, failed=0, refused=0, rounded=0, failures=[])\n"
        "    print(json.dumps(answer), flush=True)\n"
    )
    monkeypatch.setattr(pool, "WORKER", ("-c", program))
    monkeypatch.setattr(pool, "LIMIT_S", 15.0)
    kind: Kind = "operator"

    finished = run_entries([Entry(kind, each, "float32") for each in ("abs", name, "mul")], 1)

    assert {str(done.entry): bool(done.failed) for done in finished} == {
        "abs float32": False,
        f"{name} float32": True,
        "mul float32": False,
    }
    assert next(done.failures[0] for done in finished if done.failed).startswith(said)


FAKES = """
import os
import torch
from tests.ops import overloads, worker

class Fake:
    _schema = torch.ops.aten.relu.default._schema

    def __init__(self, name):
        self.name = name

    def __call__(self, x):
        on_chip = x.device.type != "cpu"
        if self.name == "crash" and on_chip or self.name == "crash everywhere":
            os.kill(os.getpid(), 11)
        if self.name == "writes beyond" and x.layout is torch.strided and x.numel():
            if on_chip:
                os.kill(os.getpid(), 6)
            reach = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride())) + 1
            x.as_strided((1,), (1,), x.storage_offset() + reach).fill_(1)
        if self.name == "refused" or self.name == "refused on the CPU" and not on_chip:
            raise RuntimeError("wrong shape")
        if self.name == "raw":
            raise RuntimeError("false INTERNAL ASSERT FAILED" if on_chip else "wrong shape")
        if self.name == "fresh":
            return x + int.from_bytes(os.urandom(2), "big")
        return x + 1 + (self.name == "wrong" and on_chip)

overloads._overload = Fake
worker.main()
"""


def test_a_process_that_crashes_is_a_fork_of_an_overload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORKER", ("-W", "ignore", "-c", FAKES))
    right = ("right", "refused", "crash everywhere", "fresh", "writes beyond")
    wrong = {
        "crash": "4 of 4 calls fail: call 0: ended its process by SIGSEGV",
        "raw": "4 of 0 calls fail: call 0: raises RuntimeError: false INTERNAL ASSERT FAILED",
        "refused on the CPU": "4 of 0 calls fail: call 0: computes what the CPU refuses: RuntimeError: wrong shape",
        "wrong": "call 0: gives",
    }

    finished = run_entries([Entry("overload", name, "drawn") for name in (*right, *wrong)], 1)

    said = {line.partition(" drawn: ")[0]: line for line in complaints(finished, {})}
    assert said.keys() == wrong.keys()
    assert all(words in said[name] for name, words in wrong.items())
