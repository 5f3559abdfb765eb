"""The entries of torch's database of operators."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
from typing import Any

import torch
from tests.ops.calls import compare_call, evenly
from tests.ops.entries import Outcome
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

Call = Callable[..., Any]

STAYING = {"tensor_split"}
"""The tensors among their further arguments stay on the CPU on every device."""

READING_FRESH_MEMORY = {"linalg.lstsq", "linalg.lstsq.grad_oriented"}
"""With the driver gelsy the CPU itself gives another last digit each time, because torch hands LAPACK a permutation
that nobody has filled in; torch's deterministic mode fills it."""

FRESH_MEMORY = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
"""Nobody says which values these give: shapes, strides and dtypes are compared."""


def listed(dtypes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield name and dtype of each entry that the CPU is said to have."""
    for name, op in _by_name().items():
        for dtype in dtypes:
            if getattr(torch, dtype) in op.dtypes:
                yield name, dtype


@cache
def _by_name() -> dict[str, Any]:
    return {op.full_name if hasattr(op, "full_name") else _full_name(op): op for op in op_db}


def names() -> Collection[str]:
    """Return the names of the operators."""
    return _by_name().keys()


def calls(name: str, dtype_name: str, most: int) -> Iterator[tuple[str, Call, Any, bool]]:
    """Yield the first samples of the operator: what they are, what is called with which arguments.

    The last says whether the values of its results are to be compared.
    """
    op, dtype = _by_name()[name], getattr(torch, dtype_name)
    for position, sample in _samples(op, dtype, op.supports_autograd and dtype in op.backward_dtypes)[:most]:
        call, arguments = _placed(name, op, sample)
        yield f"sample {position}", call, arguments, name not in FRESH_MEMORY


def _placed(name: str, op: Any, sample: Any) -> tuple[Call, Any]:
    if name in STAYING:
        return partial(_call_with, op, sample.args, sample.kwargs), ((sample.input,), {})
    return op, ((sample.input, *sample.args), sample.kwargs)


def _full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def run(name: str, dtype_name: str) -> Outcome:
    """Run the entry's samples, their in-place and their out= variants, and return what came of it."""
    torch.use_deterministic_algorithms(name in READING_FRESH_MEMORY)
    op, dtype = _by_name()[name], getattr(torch, dtype_name)
    outcome = Outcome()
    backward = op.supports_autograd and dtype in op.backward_dtypes and (dtype.is_floating_point or dtype.is_complex)
    values = name not in FRESH_MEMORY
    for position, sample in _samples(op, dtype, backward):
        what = f"sample {position}"
        call, arguments = _placed(name, op, sample)
        cpu = compare_call(outcome, what, call, arguments, backward=backward, values=values)
        if cpu.error is not None:
            continue
        if op.inplace_variant is not None and not sample.broadcasts_input:
            plain = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, arguments)
            compare_call(outcome, f"{what}, in place", _in_place(op), plain, backward=False, values=values)
        if op.supports_out:
            plain = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, arguments)
            out = pytree.tree_map_only(torch.Tensor, torch.empty_like, cpu.results)
            out = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, out)
            compare_call(
                outcome, f"{what}, out=", op, (plain[0], {**plain[1], "out": out}), backward=False, values=values
            )
    return outcome


def _call_with(op: Any, args: Any, kwargs: Any, first: Any) -> Any:
    return op(first, *args, **kwargs)


def _in_place(op: Any) -> Any:
    def call(first: Any, *args: Any, **kwargs: Any) -> Any:
        result = op.inplace_variant(first, *args, **kwargs)
        return result, first

    return call


def _samples(op: Any, dtype: torch.dtype, backward: bool) -> list[tuple[int, Any]]:
    torch.manual_seed(0)
    random.seed(0)
    return evenly(op.sample_inputs("cpu", dtype, requires_grad=backward))
