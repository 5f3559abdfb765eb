"""Operations on tensors of some size, for which a chip has other kernels than for small ones."""

from __future__ import annotations

from typing import ClassVar

from northbridge.conformance.tests.device.operation import EXACT, Operation, Tolerance, floats
from northbridge.conformance.tests.device.operations import ComparedOperations

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


class LargeOperations(ComparedOperations):
    """Operations on a million numbers and sums of a thousand products give the CPU's numbers, and gradients."""

    table = LARGE
    advice: ClassVar[str] = (
        "The small cases of the same operation pass: look at which kernel your torch plugin chooses by the size, and in"
        " how many bits it computes and adds up."
    )
