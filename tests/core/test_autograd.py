"""Whether autograd serves a chip that came late, and whose error it is where it does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

import northbridge
from northbridge.autograd import assert_autograd_serves

if TYPE_CHECKING:
    from tests.core.conftest import Install

LATE = """
import json, torch
torch.ones(1, requires_grad=True).sum().backward()
import northbridge
from northbridge.autograd import assert_autograd_serves
chip = northbridge.load("cpu_sim")
try:
    assert_autograd_serves(chip, 1)
except northbridge.SoftwareLoadError as error:
    print(json.dumps(str(error)))
"""


def test_a_chip_that_came_after_the_first_backward_is_told_with_what_to_do(install: Install) -> None:
    child = install("acme").python(LATE, NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS="1")

    told = json.loads(child.stdout)
    assert told.startswith(
        "'cpu_sim' came into this process too late: autograd had run a backward() before, and serves no device that it"
        " did not know then ("
    )
    assert told.endswith(
        "); load it first, with `import northbridge; northbridge.load('cpu_sim')` at the top of the script"
    )


def test_a_chip_that_autograd_knows_passes() -> None:
    assert_autograd_serves(northbridge.load("cpu_sim"), 1)


def test_an_error_of_the_chips_own_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the chip is on fire")

    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.Tensor, "backward", fail)

    with pytest.raises(RuntimeError, match=r"^the chip is on fire$"):
        assert_autograd_serves(chip, 0)
