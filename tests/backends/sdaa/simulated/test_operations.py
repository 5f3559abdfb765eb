"""The operations that others found missing on Teco cards are missing on the simulated ones."""

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
