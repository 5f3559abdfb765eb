"""Operations on large, small and non-finite numbers, on empty tensors, and on large tensors."""

from __future__ import annotations

from typing import Any

from northbridge_conformance.tests.device.operation import (
    EXACT,
    ROUNDED,
    SUMMED,
    Operation,
    Tolerance,
    distinct,
    fixed,
    floats,
    given,
    whole,
)
from northbridge_conformance.tests.device.operations import ComparedOperations

SMALL = Tolerance(1e-4, 0.0)
"""The tolerance of small results, where an absolute distance would show nothing."""

CANCELLED = Tolerance(1e-2, 1e-2)
"""The tolerance of small differences of numbers around a thousand, of which float32 keeps four digits."""


def _of(name: str, what: str, *arguments: Any, within: Tolerance = ROUNDED, **keywords: Any) -> Operation:
    return Operation(name, arguments, keywords, within, what=what)


def _told(name: str, what: str, *arguments: Any, within: Tolerance = EXACT, **keywords: Any) -> Operation:
    return Operation(name, arguments, keywords, within, differentiable=False, what=what)


_INFINITE, _NAN = float("inf"), float("nan")
_LARGE = given([[1000.0, 999.0, -1000.0, 0.0], [-1000.0, -1001.0, -1000.0, -1003.0]])
_FAR = given([-200.0, -60.0, 0.0, 60.0, 200.0])
_TINY = given([1e-6, -1e-6, 3e-5])
_HOLES = given([[1.0, _NAN, 3.0], [2.0, 5.0, 4.0]])
_FULL = given([[2.0, 2.0, 2.0], [_NAN, 3.0, 4.0]])
_LIMITS = given([_INFINITE, -_INFINITE, 1.0])
_HALVES = given([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
_AROUND_A_THOUSAND = floats(3, 64, low=1000.0, high=1004.0)
_NOTHING = floats(0, 3)
_NO_NUMBERS = fixed([[_NAN, _NAN, _NAN], [_INFINITE, _NAN, _INFINITE]])

EXTREMES = (
    # The textbook formula overflows or loses all digits, and a good kernel does not.
    _of("softmax", "large", _LARGE, 1, within=SUMMED),
    _of("log_softmax", "large", _LARGE, 1, within=SUMMED),
    _of("logsumexp", "large", _LARGE, 1, within=SUMMED),
    _of("logaddexp", "large", given([1000.0, -1000.0]), given([999.0, -1001.0])),
    _of("nn.functional.cross_entropy", "large", _LARGE, given([1, 3]), within=SUMMED),
    _of("nn.functional.binary_cross_entropy_with_logits", "far", _FAR, fixed([1.0, 0.0, 1.0, 0.0, 1.0])),
    _of("sigmoid", "far", _FAR),
    _of("tanh", "far", _FAR),
    _of("nn.functional.logsigmoid", "far", _FAR),
    _of("nn.functional.softplus", "far", _FAR),
    _of("nn.functional.silu", "far", _FAR),
    _of("nn.functional.gelu", "far", _FAR),
    _of("nn.functional.mish", "far", _FAR),
    _of("nn.functional.elu", "far", _FAR),
    _told("exp", "over the end", _FAR, within=SMALL),
    _of("expm1", "small", _TINY, within=SMALL),
    _of("log1p", "small", _TINY, within=SMALL),
    _told("sin", "of many turns", given([1000.0, -777.0]), within=Tolerance(1e-3, 1e-4)),
    _told("hypot", "large", given([3e30, 1e-30]), given([4e30, 0.0]), within=SMALL),
    _of("var", "around a thousand", _AROUND_A_THOUSAND, 1, within=CANCELLED),
    _of("std", "around a thousand", _AROUND_A_THOUSAND, 1, within=CANCELLED),
    _of("nn.functional.layer_norm", "around a thousand", _AROUND_A_THOUSAND, (64,), within=CANCELLED),
    _of(
        "nn.functional.group_norm", "around a thousand", floats(2, 4, 32, low=1000.0, high=1004.0), 2, within=CANCELLED
    ),
    _of(
        "nn.functional.batch_norm",
        "around a thousand",
        floats(64, 3, low=1000.0, high=1004.0),
        None,
        None,
        training=True,
        within=CANCELLED,
    ),
    # Infinity and NaN: their sources, their propagation, and the places that must stay free of them.
    _told("div", "by zero", given([1.0, -1.0, 0.0]), given([0.0, 0.0, 0.0])),
    _told("log", "of zero and less", given([0.0, -1.0, 1.0])),
    _told("sqrt", "of less than zero", given([0.0, -1.0, 4.0])),
    _told("rsqrt", "of zero", given([0.0, 4.0])),
    _told("pow", "of zero, and of less", given([0.0, -8.0, 0.0]), given([0.0, 0.5, -1.0])),
    _told("sub", "infinity from infinity", _LIMITS, _LIMITS),
    _told("mul", "infinity by zero", _LIMITS, 0.0),
    _told("exp", "of infinity", _LIMITS, within=ROUNDED),
    _told("maximum", "no number", _HOLES, _FULL),
    _told("minimum", "no number", _HOLES, _FULL),
    _told("fmax", "no number", _HOLES, _FULL),
    _told("max", "no number", _HOLES, 1),
    _told("min", "no number", _HOLES, 1),
    _told("amax", "no number", _HOLES, 1),
    _told("argmax", "no number", _HOLES, 1),
    _told("median", "no number", _HOLES, 1),
    _told("sum", "no number", _HOLES, 1),
    _told("mean", "infinite", _LIMITS),
    _told("cumsum", "no number", _HOLES, 1),
    _told("cummax", "no number", _HOLES, 1),
    _told("sort", "no number", _HOLES, 1),
    _told("topk", "no number", _HOLES, 2),
    _told("softmax", "all but one masked", given([[-_INFINITE, 2.0, -_INFINITE]]), 1),
    _told("softmax", "no number", _HOLES, 1, within=SUMMED),
    _told("clamp", "no number", _HOLES, 1.5, 3.5),
    _told("nn.functional.relu", "no number", _HOLES),
    _told("nn.functional.leaky_relu", "no number", _HOLES),
    _told("nn.functional.max_pool1d", "no number", given([[[1.0, _NAN, 3.0, 4.0]]]), 2),
    _told("eq", "no number", _HOLES, _HOLES),
    _told("ne", "no number", _HOLES, _HOLES),
    _told("lt", "no number", _HOLES, _FULL),
    _told("isclose", "no number", _HOLES, _HOLES, equal_nan=True),
    _told("bool", "no number, and small ones", given([_NAN, 0.0, -0.0, 1e-30])),
    _told("signbit", "zeros", given([0.0, -0.0])),
    _told("atan2", "zeros", given([0.0, -0.0, 0.0, -0.0]), given([1.0, 1.0, -1.0, -1.0]), within=ROUNDED),
    _told("round", "halves", _HALVES),
    _told("nan_to_num", "as it comes", _LIMITS),
    _told("mm", "zero by infinity", given([[0.0, 1.0]]), given([[_INFINITE], [2.0]])),
    _of("addmm", "NaN times a factor of 0", _NO_NUMBERS, floats(2, 4), floats(4, 3), beta=0, within=SUMMED),
    _of(
        "baddbmm",
        "NaN times a factor of 0",
        fixed([[[_NAN, _INFINITE]]]),
        floats(1, 1, 4),
        floats(1, 4, 2),
        beta=0,
        within=SUMMED,
    ),
    _told("where", "no number elsewhere", fixed([True, False, True]), given([1.0, _NAN, 3.0]), 0.0),
    # Tensors with no element, or one.
    _of("sum", "none", _NOTHING, 0),
    _of("prod", "none", _NOTHING, 0),
    _told("mean", "none", _NOTHING, 0),
    _of("var", "of one", floats(1, 3), 0, correction=0),
    _told("all", "none", _NOTHING, 0),
    _told("any", "none", _NOTHING, 0),
    _told("argsort", "none", _NOTHING),
    _told("unique", "none", floats(0)),
    _told("nonzero", "none", fixed([0.0, 0.0])),
    _of("cumsum", "none", _NOTHING, 0),
    _of("sort", "none", _NOTHING, 0),
    _of("softmax", "none", _NOTHING, 1),
    _of("mm", "none", _NOTHING, floats(3, 4)),
    _of("mm", "none between", floats(2, 0), floats(0, 4)),
    _of("bmm", "none", floats(0, 2, 3), floats(0, 3, 2)),
    _of("matmul", "none between", floats(2, 2, 0), floats(2, 0, 3)),
    _of("nn.functional.linear", "none", _NOTHING, floats(4, 3), floats(4)),
    _of("nn.functional.conv2d", "none", floats(0, 2, 4, 4), floats(3, 2, 3, 3)),
    _of("nn.functional.layer_norm", "none", _NOTHING, (3,)),
    _of("nn.functional.embedding", "none", whole(0), floats(4, 3)),
    _of("nn.functional.cross_entropy", "none", _NOTHING, whole(0), reduction="sum"),
    _of("cat", "none among them", [_NOTHING, floats(2, 3), _NOTHING]),
    _of("masked_select", "none", floats(3), fixed([False, False, False])),
    _of("index_select", "none", floats(4, 3), 0, whole(0)),
    _of("split", "none among them", floats(3, 2), [0, 3, 0]),
    _of("softmax", "of one", floats(3, 1), 1),
    _of("sum", "of one number", given(2.5)),
)


class ExtremeNumbers(ComparedOperations):
    """Operations on large, small and non-finite numbers and on empty tensors give the CPU's results."""

    table: tuple[Operation, ...] = EXTREMES
    advice = (
        "Ordinary numbers pass in Operations: look at how the kernel avoids overflow, by subtracting the largest first;"
        " at a compiler that assumes finite numbers; and at kernels that are launched for empty tensors."
    )


ADDED_UP = Tolerance(1e-4, 3e-3)
"""The tolerance of a sum of a thousand products of numbers around 1: eight or ten bits are not enough."""

CONVOLVED_LARGE = Tolerance(5e-3, 5e-2)
"""The tolerance of large convolutions: ten bits are enough, because torch has CUDA compute them so."""

LARGE = (
    Operation("mm", (floats(513, 1025), floats(1025, 257)), within=ADDED_UP),
    Operation("bmm", (floats(5, 129, 1025), floats(5, 1025, 65)), within=ADDED_UP),
    Operation("addmm", (floats(257), floats(513, 1025), floats(1025, 257)), within=ADDED_UP),
    Operation("nn.functional.linear", (floats(129, 1025), floats(513, 1025), floats(513)), within=ADDED_UP),
    Operation("nn.functional.conv2d", (floats(4, 65, 33, 33), floats(33, 65, 3, 3)), within=CONVOLVED_LARGE),
    Operation("softmax", (floats(513, 1025), -1), within=Tolerance(1e-4, 1e-5)),
    Operation("nn.functional.layer_norm", (floats(513, 1025), [1025]), within=Tolerance(1e-4, 1e-4)),
    Operation("sum", (floats(513, 1025), 0), within=ADDED_UP),
    Operation("mean", (floats(513, 1025),), within=Tolerance(1e-4, 1e-5)),
    Operation("cumsum", (floats(33, 4097), 1), within=Tolerance(1e-4, 1e-2)),
    Operation("exp", (floats(1025, 1025),), within=Tolerance(1e-4, 1e-5)),
    Operation("sort", (distinct(33, 4097),), within=EXACT),
)
"""The large operations, in sizes that are not powers of two."""


class LargeOperations(ComparedOperations):
    """Operations on a million numbers and sums of a thousand products give the CPU's numbers and gradients."""

    table: tuple[Operation, ...] = LARGE
    advice = (
        "The small cases of the same operation pass: look at which kernel your torch plugin chooses by the size, and in"
        " how many bits it computes and adds up."
    )
