"""Operations with options beyond the plain call: a plain table, sorted by purpose.

An operation with an option is another kernel for many chips, or a branch of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from northbridge_conformance.tests.device.operation import (
    CONVOLVED,
    EXACT,
    ROUNDED,
    SOLVED,
    SUMMED,
    Operation,
    Tolerance,
    definite,
    fixed,
    flags,
    floats,
    given,
    signs,
    whole,
)
from northbridge_conformance.tests.device.operations import ComparedOperations


def _of(name: str, what: str, *arguments: Any, within: Tolerance = SUMMED, **keywords: Any) -> Operation:
    return Operation(name, arguments, keywords, within, what=what)


def _exact(name: str, what: str, *arguments: Any, **keywords: Any) -> Operation:
    return Operation(name, arguments, keywords, EXACT, what=what)


def _told(name: str, what: str, *arguments: Any, **keywords: Any) -> Operation:
    return Operation(name, arguments, keywords, EXACT, differentiable=False, what=what)


def _called(
    name: str,
    what: str,
    call: Callable[..., Any],
    *arguments: Any,
    within: Tolerance = SUMMED,
    differentiable: bool = True,
) -> Operation:
    return Operation(name, arguments, {}, within, differentiable, what, call)


_NEGATIVE = given([-7, -6, -1, 0, 1, 6, 7])
_DIVISORS = given([2, -4, 3, 5, -2, 4, -3])
_LOGITS, _CLASSES = floats(6, 5), given([0, 1, 2, 1, 4, 1])
_MASK = fixed([[True, False, False], [True, True, False], [False, True, True]])
_QUERIES = (floats(2, 2, 3, 4), floats(2, 2, 3, 4), floats(2, 2, 3, 4))
_REPEATED = given([[4.0, 1.0, 4.0, 1.0, 4.0], [2.0, 2.0, 0.0, 2.0, 0.0]])
_PICTURE = floats(2, 4, 7, 7)

OPTIONS = (
    # Arithmetic
    _told("div", "cut towards zero", floats(3, 4), floats(4, low=0.3, high=0.4), rounding_mode="trunc"),
    _told("div", "rounded down", floats(3, 4), floats(4, low=0.3, high=0.4), rounding_mode="floor"),
    _told("div", "whole numbers, cut towards zero", _NEGATIVE, _DIVISORS, rounding_mode="trunc"),
    _told("floor_divide", "negative whole numbers", _NEGATIVE, _DIVISORS),
    _told("remainder", "negative whole numbers", _NEGATIVE, _DIVISORS),
    _told("fmod", "negative whole numbers", _NEGATIVE, _DIVISORS),
    _told("pow", "whole numbers", whole(3, 4), 3),
    _of("pow", "squared", floats(3, 4), 2, within=ROUNDED),
    _of("pow", "cubes of negative numbers", floats(3, 4, high=-0.5), 3, within=ROUNDED),
    _of("pow", "the root", floats(3, 4, low=0.2), 0.5, within=ROUNDED),
    _of("pow", "of a number", 2.0, floats(3, 4), within=ROUNDED),
    _of("rsub", "a part", floats(3, 4), floats(4), alpha=3.0, within=ROUNDED),
    _told("add", "whole numbers, several times", whole(3, 4), whole(4), alpha=3),
    _exact("clamp", "by tensors", floats(3, 4), floats(3, 4, high=-0.5), floats(4, low=0.5)),
    _exact("clamp", "from below alone", floats(3, 4), min=0.1),
    _of("lerp", "by one weight", floats(3, 4), floats(3, 4), 0.3, within=ROUNDED),
    _told("bitwise_not", "truth values", flags(3, 4)),
    _exact("where", "a number elsewhere", flags(3, 4), floats(3, 4), 0.0),
    _exact("where", "rows and columns", flags(3, 1), floats(1, 4), floats(3, 1)),
    _called("mul", "in place", lambda a, b: a.clone().mul_(b), floats(3, 4), floats(4), within=ROUNDED),
    _called("addcmul", "in place", lambda a, b: a.clone().addcmul_(b, b, value=2), floats(3), floats(3)),
    _called("masked_fill", "in place", lambda a, b: a.clone().masked_fill_(b, -1), floats(3, 4), flags(4)),
    _called(
        "add", "uint8 over its end", lambda a: a.to(torch.uint8) + 250, whole(9), within=EXACT, differentiable=False
    ),
    _called("mul", "truth values and numbers", lambda a, b: a * b, flags(3, 4), floats(4), within=EXACT),
    _called("mul", "whole numbers and one of Python's", lambda a: a * 0.5, whole(3, 4), differentiable=False),
    _called("to", "whole numbers, cut towards zero", lambda a: a.to(torch.int32), floats(9), differentiable=False),
    # Reductions
    _of("sum", "all", floats(3, 4, 5)),
    _of("sum", "kept dimensions", floats(3, 4, 5), (0, 2), True),
    _told("sum", "truth values", flags(3, 4), 1),
    _told("sum", "whole numbers", whole(3, 4), 0),
    _told("sum", "very many truth values", flags(70001)),
    _told("cumsum", "many truth values", flags(3001), 0),
    _told("count_nonzero", "many", whole(3001, high=3)),
    _called("mean", "many truth values", lambda a: a.float().mean(), flags(3001), differentiable=False),
    _called("sum", "many of uint8", lambda a: a.to(torch.uint8).sum(), whole(3001), differentiable=False),
    _of("mean", "all", floats(3, 4)),
    _of("var", "of all there is", floats(3, 7), 1, correction=0),
    _of("std", "over two dimensions", floats(3, 4, 5), (0, 2), correction=0),
    _of("norm", "the first", floats(3, 4), 1, 1),
    _of("norm", "the largest", floats(3, 4), float("inf"), 1),
    _exact("amax", "over two dimensions", floats(3, 4, 5), (0, 2)),
    _exact("max", "all", floats(3, 4)),
    _told("argmax", "all", floats(3, 4)),
    _told("argmin", "kept dimensions", floats(3, 4), 0, True),
    _told("max", "whole numbers", given([[3, -9, 7], [-1, -2, -3]]), 1),
    _of("prod", "zeros among them", given([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0], [1.0, 2.0, 3.0]]), 1),
    _of("cumsum", "down the columns", floats(3, 5), 0),
    _told("cumsum", "truth values", flags(3, 4), 1),
    _of("logsumexp", "over two dimensions", floats(3, 4, 5), (0, 2)),
    _told("any", "all", flags(3, 4)),
    _told("all", "whole numbers", whole(3, 4, high=3), 1),
    _exact("median", "all", floats(7)),
    # Order and place
    _exact("sort", "equal ones in their order", _REPEATED, stable=True, dim=1),
    _told("argsort", "equal ones in their order", _REPEATED, stable=True, dim=1, descending=True),
    _exact("sort", "down the columns", floats(5, 3), 0),
    _told("sort", "whole numbers", whole(7, high=99)),
    _exact("topk", "the smallest", floats(3, 7), 3, largest=False),
    _exact("topk", "down the columns", floats(7, 3), 2, 0),
    _told("unique", "where they went, and how many", whole(9, high=4), return_inverse=True, return_counts=True),
    _told("searchsorted", "from the right", given([0.0, 1.0, 1.0, 2.0]), given([1.0, 0.5, 2.5]), right=True),
    _of("index_put", "added where they meet", floats(4, 3), (given([1, 1, 3, 1]),), floats(4, 3), accumulate=True),
    _of("index_add", "several times", floats(4, 3), 0, given([2, 2, 2]), floats(3, 3), alpha=2.0),
    _of("scatter_reduce", "the largest", floats(3), 0, given([0, 1, 1, 0]), floats(4), "amax"),
    _of(
        "scatter_reduce",
        "without what was there",
        floats(3),
        0,
        given([0, 1, 1, 0]),
        floats(4),
        "sum",
        include_self=False,
    ),
    _of("__getitem__", "the same row again and again", floats(4, 3), (given([2, 2, 0, 2]),)),
    _exact("__getitem__", "where a mask is true", floats(3, 4), (flags(3, 4),)),
    _exact("__getitem__", "from the end", floats(3, 4), (Ellipsis, -2)),
    _exact("__getitem__", "rows of tensors and a slice", floats(4, 5, 3), (given([3, 0]), slice(None), given([1, 2]))),
    _of("gather", "the same again", floats(3, 4), 1, given([[1, 1, 1], [0, 0, 2], [3, 3, 3]])),
    _exact("masked_scatter", "in their order", floats(3, 4), flags(3, 4), floats(12)),
    _exact("tril", "below the diagonal", floats(4, 4), -1),
    _exact("triu", "from below the diagonal", floats(4, 4), -1),
    _exact("diagonal", "below, of other dimensions", floats(2, 4, 4), -1, 1, 2),
    _exact("roll", "backwards", floats(3, 4), -1, 1),
    _exact("cat", "the last dimension", [floats(2, 3), floats(2, 1), floats(2, 2)], -1),
    _exact("split", "into parts of many sizes", floats(6, 2), [1, 3, 2]),
    _told("repeat_interleave", "each as often as is said", whole(3), given([2, 0, 3])),
    _exact("permute", "from the end", floats(2, 3, 4), (-1, 0, -2)),
    _exact("as_strided", "from the third on", floats(12), (3, 2), (2, 1), 3),
    # Products
    _of("matmul", "two vectors", floats(5), floats(5)),
    _of("matmul", "a vector and a matrix", floats(4), floats(4, 3)),
    _of("matmul", "batches that are spread", floats(2, 1, 3, 4), floats(5, 4, 2)),
    _called("mm", "both turned", lambda a, b: torch.mm(a.t(), b.t()), floats(4, 3), floats(5, 4)),
    _called("bmm", "both turned", lambda a, b: torch.bmm(a.mT, b.mT), floats(2, 4, 3), floats(2, 5, 4)),
    _called("bmm", "one for all", lambda a, b: torch.bmm(a.expand(3, -1, -1), b), floats(1, 2, 4), floats(3, 4, 2)),
    _called("mm", "every other row", lambda a, b: torch.mm(a[::2], b[:, 1::2]), floats(6, 4), floats(4, 6)),
    _of("baddbmm", "a part of each", floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5), beta=0.5, alpha=2.0),
    _of("einsum", "heads", "bhid,bhjd->bhij", floats(2, 2, 3, 4), floats(2, 2, 5, 4)),
    _of("einsum", "the diagonal", "bii->bi", floats(2, 3, 3)),
    _of("einsum", "three at once", "ij,jk,kl->il", floats(2, 3), floats(3, 4), floats(4, 2)),
    _of("linalg.cholesky", "the upper half", definite(4), upper=True, within=SOLVED),
    _of("linalg.solve_triangular", "the lower half", definite(4), floats(4, 2), upper=False, within=SOLVED),
    _of("nn.functional.linear", "without a bias, of many dimensions", floats(2, 3, 4), floats(5, 4)),
    # Activations
    _of("nn.functional.gelu", "by tanh", floats(3, 4), approximate="tanh"),
    _of("nn.functional.elu", "another slope", floats(3, 4), 0.3),
    _of("nn.functional.softplus", "steeper, and straight from there on", floats(3, 4), 3.0, 2.0),
    _exact("nn.functional.hardtanh", "other ends", floats(3, 4), -0.4, 1.3),
    _of("softmax", "the first dimension", floats(3, 5), 0),
    _of("softmax", "the one in the middle", floats(2, 3, 4), 1),
    _of("log_softmax", "the first dimension", floats(3, 5), 0),
    _called("nn.functional.relu", "in place", lambda a: torch.relu_(a.clone()), floats(3, 4), within=EXACT),
    _of("nn.functional.scaled_dot_product_attention", "what came before", *_QUERIES, is_causal=True),
    _of("nn.functional.scaled_dot_product_attention", "where a mask is true", *_QUERIES, attn_mask=_MASK),
    _of("nn.functional.scaled_dot_product_attention", "a mask that is added", *_QUERIES, attn_mask=floats(3, 3)),
    _of("nn.functional.scaled_dot_product_attention", "another scale", *_QUERIES, scale=0.2),
    # Layers
    _of("nn.functional.conv2d", "far apart", _PICTURE, floats(3, 4, 3, 3), within=CONVOLVED, dilation=2, padding=2),
    _of("nn.functional.conv2d", "each channel alone", _PICTURE, floats(4, 1, 3, 3), within=CONVOLVED, groups=4),
    _of("nn.functional.conv2d", "the same size", _PICTURE, floats(3, 4, 3, 3), within=CONVOLVED, padding="same"),
    _of("nn.functional.conv2d", "two strides", _PICTURE, floats(3, 4, 2, 3), within=CONVOLVED, stride=(2, 1)),
    _of("nn.functional.conv2d", "points", _PICTURE, floats(3, 4, 1, 1), floats(3), within=CONVOLVED),
    _of(
        "nn.functional.conv_transpose2d",
        "in groups, and one more",
        floats(2, 4, 4, 4),
        floats(4, 2, 3, 3),
        within=CONVOLVED,
        stride=2,
        padding=1,
        output_padding=1,
        groups=2,
    ),
    _called(
        "nn.functional.conv2d",
        "channels last",
        lambda a, b: torch.nn.functional.conv2d(a.contiguous(memory_format=torch.channels_last), b),
        _PICTURE,
        floats(3, 4, 3, 3),
        within=CONVOLVED,
    ),
    _exact("nn.functional.max_pool2d", "overlapping, and beyond the edge", _PICTURE, 3, 2, 1),
    _exact("nn.functional.max_pool2d", "far apart", _PICTURE, 3, 2, dilation=2),
    _exact("nn.functional.max_pool2d", "what is left at the edge", _PICTURE, 2, 2, ceil_mode=True),
    _exact("nn.functional.max_pool2d", "where they are", _PICTURE, 2, return_indices=True),
    _of("nn.functional.avg_pool2d", "beyond the edge", _PICTURE, 3, 2, 1),
    _of("nn.functional.avg_pool2d", "not beyond the edge", _PICTURE, 3, 2, 1, count_include_pad=False),
    _of("nn.functional.avg_pool2d", "what is left at the edge", _PICTURE, 2, 2, ceil_mode=True),
    _exact("nn.functional.pad", "mirrored", _PICTURE, (1, 2, 3, 0), mode="reflect"),
    _of("nn.functional.pad", "the edge again", _PICTURE, (1, 2, 3, 0), mode="replicate"),
    _of("nn.functional.pad", "around", _PICTURE, (1, 2, 3, 0), mode="circular"),
    _exact("nn.functional.pad", "a number, and less of a side", floats(3, 4), (2, -1), value=3.0),
    _of("nn.functional.interpolate", "the nearest", floats(2, 3, 4, 4), size=(6, 5)),
    _of(
        "nn.functional.interpolate",
        "corners on corners",
        floats(1, 3, 4, 4),
        (7, 5),
        mode="bilinear",
        align_corners=True,
    ),
    _of("nn.functional.interpolate", "bicubic", floats(2, 3, 4, 4), scale_factor=2.0, mode="bicubic"),
    _of("nn.functional.interpolate", "smaller", floats(2, 3, 6, 6), scale_factor=0.5, mode="area"),
    _of(
        "nn.functional.batch_norm",
        "by what was seen",
        floats(6, 4),
        fixed([0.1, -0.2, 0.3, 0.0]),
        fixed([1.0, 0.5, 2.0, 0.1]),
        floats(4),
        floats(4),
        eps=0.5,
    ),
    _called(
        "nn.functional.batch_norm",
        "what it sees",
        lambda a, mean, variance: [
            torch.nn.functional.batch_norm(a, seen := mean.clone(), spread := variance.clone(), None, None, True, 0.3),
            seen,
            spread,
        ],
        floats(4, 3, 5),
        fixed([0.1, -0.2, 0.3]),
        fixed([1.0, 0.5, 2.0]),
    ),
    _of("nn.functional.layer_norm", "two dimensions, much added", floats(3, 4, 5), (4, 5), eps=0.5),
    _of("nn.functional.group_norm", "weighed", floats(2, 4, 5), 2, floats(4), floats(4), 0.5),
    _of("nn.functional.rms_norm", "much added", floats(3, 8), (8,), eps=0.5),
    _of("nn.functional.normalize", "by sums, down the columns", floats(3, 5), 1.0, 0),
    _of("nn.functional.embedding", "one that learns nothing", given([[1, 2, 1], [2, 0, 1]]), floats(4, 3), 2),
    _of("nn.functional.embedding_bag", "sums of bags", whole(7, high=6), floats(6, 3), given([0, 3, 3]), mode="sum"),
    # Losses
    _of("nn.functional.cross_entropy", "a class that does not count", _LOGITS, _CLASSES, ignore_index=1),
    _of("nn.functional.cross_entropy", "classes that are weighed", _LOGITS, _CLASSES, fixed([0.1, 2.0, 1.0, 3.0, 0.5])),
    _of("nn.functional.cross_entropy", "each", _LOGITS, _CLASSES, reduction="none"),
    _of("nn.functional.cross_entropy", "the sum", _LOGITS, _CLASSES, reduction="sum"),
    _of("nn.functional.cross_entropy", "chances", floats(2, 3), fixed([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])),
    _of("nn.functional.cross_entropy", "pictures", floats(2, 5, 3, 3), whole(2, 3, 3, high=5)),
    _of("nn.functional.nll_loss", "a class that does not count", _LOGITS, _CLASSES, ignore_index=1),
    _of("nn.functional.mse_loss", "each", floats(3, 4), floats(3, 4), reduction="none"),
    _of("nn.functional.l1_loss", "the sum", floats(3, 4), floats(3, 4), reduction="sum"),
    _of("nn.functional.smooth_l1_loss", "a wider curve", floats(3, 4), floats(3, 4), beta=2.0),
    _of("nn.functional.huber_loss", "a narrower curve", floats(3, 4), floats(3, 4), delta=0.4),
    _of("nn.functional.kl_div", "logarithms of both", floats(3, 4), floats(3, 4), reduction="sum", log_target=True),
    _of(
        "nn.functional.binary_cross_entropy_with_logits",
        "what is true weighs more",
        floats(3, 4),
        fixed([[1.0, 0.0, 0.3, 1.0]] * 3),
        pos_weight=fixed([2.0, 0.5, 3.0, 1.0]),
    ),
    _of("nn.functional.margin_ranking_loss", "at a distance", floats(5), floats(5), signs(5), 0.7),
)
"""An operation has one entry for each tested option."""


class OperationOptions(ComparedOperations):
    """Operations with options beyond the plain call give the CPU's numbers and gradients, too."""

    table: tuple[Operation, ...] = OPTIONS
    advice = (
        "The plain call of the same operation passes in Operations: look at what your torch plugin does with the"
        " argument that differs here. It must reject an argument that it does not know, not ignore it."
    )
