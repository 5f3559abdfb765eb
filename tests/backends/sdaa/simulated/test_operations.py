"""Operations that others found missing on Teco cards, and the one of DeepSpeed's Adam, whose steps are torch's."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

REFUSED: dict[str, tuple[Callable[[Tensor], object], torch.dtype]] = {
    "max(dim) is not supported for bool on SDAA device.": (lambda x: x.max(0), torch.bool),
    "asinh is not supported for int64 on SDAA device.": (torch.arcsinh, torch.int64),
}


@pytest.mark.parametrize("said", REFUSED)
@pytest.mark.usefixtures("sdaa")
def test_lacking_operation_is_refused_for_its_dtype(said: str) -> None:
    call, dtype = REFUSED[said]

    with pytest.raises(RuntimeError, match=re.escape(said)):
        call(torch.ones(2, device="sdaa").to(dtype))
    call(torch.ones(2, device="sdaa"))  # and for no other


def test_what_is_said_to_do_instead_works(sdaa: ModuleType) -> None:
    assert torch.ones(2, dtype=torch.bool, device="sdaa").any(0).item()
    assert torch.arcsinh(torch.zeros(2, dtype=torch.int64, device="sdaa").float()).tolist() == [0, 0]
    assert sdaa.is_available()


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.usefixtures("sdaa")
def test_fused_adam_steps_as_torch_does(decoupled: bool) -> None:
    torch.manual_seed(1)
    start, gradients = torch.randn(3, 4), torch.randn(5, 3, 4)
    expected = torch.nn.Parameter(start.clone())
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind([expected], lr=1e-2, weight_decay=0.1)
    weight = start.to("sdaa")
    average, square = torch.zeros_like(weight), torch.zeros_like(weight)

    for step, gradient in enumerate(gradients, start=1):
        expected.grad = gradient
        optimizer.step()
        torch.ops.sdaa.fused_adam(
            [gradient.to("sdaa")], [weight], [average], [square], [], 0.9, 0.999, 1e-8, 1e-2, 0.1, decoupled, step, 1
        )

    torch.testing.assert_close(weight.cpu(), expected.data)
