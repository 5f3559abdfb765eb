"""Check that autograd serves a chip that was loaded late, and its errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from tests.core.conftest import Install

import northbridge
from northbridge.lightning.accelerators.accelerator import assert_autograd_serves

ASKED = """
import json
from types import SimpleNamespace
import torch, northbridge
from northbridge.lightning.accelerators.accelerator import assert_autograd_serves

def ask(chip, index):
    try:
        assert_autograd_serves(chip, index)
    except northbridge.SoftwareLoadError as error:
        return str(error)

def fail_on_device(*arguments):
    if not stub.failed:
        stub.failed = True
        grad(*arguments)
        raise RuntimeError("device < device_ready_queues_.size() INTERNAL ASSERT FAILED")
    return grad(*arguments)

grad = torch.autograd.grad
stub = SimpleNamespace(name="acme", device=SimpleNamespace(root=lambda index: torch.device("cpu")), failed=False)
torch.autograd.grad = fail_on_device
told = [ask(stub, 0)]
torch.autograd.grad = grad
torch.ones(1, requires_grad=True).sum().backward()
chip = northbridge.load("cpu_sim")
told.append(ask(chip, 1))
torch.autograd.set_multithreading_enabled(False)
print(json.dumps([*told, ask(chip, 1)]))
"""


def test_late_is_said_only_where_a_backward_ran_before(install: Install) -> None:
    """The first chip fails in the first backward pass of the process, the second one after another."""
    child = install("acme").python(ASKED, NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS="1")

    unknown, late, without_threads = json.loads(child.stdout)
    assert unknown == (
        "autograd has no thread for 'cpu': 'acme' tells torch of fewer devices. Fix: report it to its vendor"
    )
    assert late == (
        "'cpu_sim' was loaded too late: a backward() ran before, and autograd serves only devices it knew then. Fix:"
        " `import northbridge; northbridge.load('cpu_sim')` at the top of the script; if it is there already, add"
        " torch.ones(1, device='cpu_sim')"
    )
    assert without_threads is None


def test_an_early_question_for_the_accelerator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch keeps its answer: a chip with a dispatch key of its own does not count as an accelerator afterwards."""

    def fail(*_: object) -> None:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.autograd, "grad", fail)

    with pytest.raises(northbridge.SoftwareLoadError) as told:
        assert_autograd_serves(chip, 0)
    assert str(told.value) == (
        "torch was asked for its accelerator before 'cpu_sim' was loaded, and keeps its answer. Fix: `import"
        " northbridge; northbridge.load('cpu_sim')` at the top of the script"
    )


def test_a_chip_that_autograd_knows_passes() -> None:
    assert_autograd_serves(northbridge.load("cpu_sim"), 1)


def test_the_probe_is_not_a_backward_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts count and replace Tensor.backward; where they switch gradients off, the chip is asked all the same."""

    def fail(*_: object) -> None:
        raise AssertionError("Tensor.backward was called")

    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.Tensor, "backward", fail)

    with torch.no_grad():
        assert_autograd_serves(chip, 1)


def test_nothing_is_asked_under_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is taken for an evaluation may have no thread of autograd's."""
    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.autograd, "grad", lambda *_: pytest.fail("a gradient was asked for"))

    with torch.inference_mode():
        assert_autograd_serves(chip, 1)


def test_an_error_of_the_chips_own_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the chip is on fire")

    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.autograd, "grad", fail)

    with pytest.raises(RuntimeError, match=r"^the chip is on fire$"):
        assert_autograd_serves(chip, 0)
