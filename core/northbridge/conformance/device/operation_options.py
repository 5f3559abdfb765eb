"""Operations with options, beside the CPU's."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from northbridge.conformance.device.one_device import OneDevice
from northbridge.conformance.device.operation import Operation
from northbridge.conformance.device.operations import assert_like_the_cpu
from northbridge.conformance.device.option_table import OPTIONS
from northbridge.conformance.suite import shows


class OperationOptions(OneDevice):
    """Operations give the CPU's numbers and gradients with what users ask of them beside the plain call, too."""

    advice: ClassVar[str] = (
        "The plain call of the same operation passes among Operations: look at what your torch plugin makes of the"
        " argument that is another here. One that it does not know it has to refuse, and not to ignore."
    )

    @pytest.mark.parametrize("operation", OPTIONS, ids=[str(each) for each in OPTIONS])
    @shows("float32")
    def test_an_operation_and_its_gradient_are_near_the_cpus(
        self, backend: str, device: torch.device, operation: Operation
    ) -> None:
        assert_like_the_cpu(backend, device, operation)
