"""Lightning's exports of a model on the simulated chip."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from tests.backends.exports import Exports, pytestmark as pytestmark


class TestExports(Exports):
    @pytest.fixture
    def device(self, chip: ModuleType) -> torch.device:
        return torch.device("cpu_sim:1")


def test_an_operator_that_escapes_the_tracer_is_refused(chip: ModuleType) -> None:
    """An operator that torch does not record would be a constant of the traced model, so it is an error."""
    relu: Any = torch.ops.aten.relu.default
    trace: Any = torch.jit.trace  # untyped
    below = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)  # of the tracer

    with pytest.raises(NotImplementedError) as raised:
        trace(lambda given: relu.redispatch(below, given), torch.ones(2, device="cpu_sim"))

    assert str(raised.value).splitlines()[0] == (
        "aten::relu on cpu_sim is not recorded by torch.jit.trace, and would be a constant of the traced model. Fix:"
        " trace it on the CPU"
    )
