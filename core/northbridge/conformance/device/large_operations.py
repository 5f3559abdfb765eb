"""Operations on tensors of some size, for which a chip has other kernels than for small ones."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from northbridge.conformance.device.one_device import OneDevice
from northbridge.conformance.device.operation import EXACT, Operation, Tolerance, floats
from northbridge.conformance.device.operations import assert_like_the_cpu
from northbridge.conformance.suite import shows

ADDED_UP = Tolerance(1e-4, 3e-3)
"""A thousand products of numbers around 1, whose sum is some ten times as large; eight or ten bits are not enough."""

CONVOLVED = Tolerance(5e-3, 5e-2)
"""As of small convolutions, ten bits are: torch has CUDA compute them so."""

LARGE = (
    Operation("mm", (floats(513, 1025), floats(1025, 257)), within=ADDED_UP),
    Operation("bmm", (floats(5, 129, 1025), floats(5, 1025, 65)), within=ADDED_UP),
    Operation("addmm", (floats(257), floats(513, 1025), floats(1025, 257)), within=ADDED_UP),
    Operation("nn.functional.linear", (floats(129, 1025), floats(513, 1025), floats(513)), within=ADDED_UP),
    Operation("nn.functional.conv2d", (floats(4, 65, 33, 33), floats(33, 65, 3, 3)), within=CONVOLVED),
    Operation("softmax", (floats(513, 1025), -1), within=Tolerance(1e-4, 1e-5)),
    Operation("nn.functional.layer_norm", (floats(513, 1025), [1025]), within=Tolerance(1e-4, 1e-4)),
    Operation("sum", (floats(513, 1025), 0), within=ADDED_UP),
    Operation("mean", (floats(513, 1025),), within=Tolerance(1e-4, 1e-5)),
    Operation("cumsum", (floats(33, 4097), 1), within=Tolerance(1e-4, 1e-2)),
    Operation("exp", (floats(1025, 1025),), within=Tolerance(1e-4, 1e-5)),
    Operation("sort", (floats(33, 4097),), within=EXACT),
)
"""What is tried, in sizes that are no powers of two."""


class LargeOperations(OneDevice):
    """Operations on a million numbers and sums of a thousand products give the CPU's numbers, and gradients."""

    advice: ClassVar[str] = (
        "The small cases of the same operation pass: look at which kernel your torch plugin chooses by the size, and in"
        " how many bits it computes and adds up."
    )

    @pytest.mark.parametrize("operation", LARGE, ids=[str(each) for each in LARGE])
    @shows("float32", "autograd")
    def test_a_large_operation_and_its_gradient_are_near_the_cpus(
        self, backend: str, device: torch.device, operation: Operation
    ) -> None:
        assert_like_the_cpu(backend, device, operation)
