"""The names of operations in faults: torch's operators, and the calls of the collective library."""

from __future__ import annotations

from difflib import get_close_matches
from typing import get_args

import torch

from northbridge_cpu_sim.collective import Call

SYNCHRONIZE = "synchronize"
CALLS: frozenset[str] = frozenset(get_args(Call))

_COMPOSED = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
# Operators that the chip runs whole, though torch could compose them; and those that only the chip composes.
_RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
_WHOLE = ("aten::convolution", "aten::convolution_backward", "aten::_foreach_", *_RECURRENT)
_COMPOSED_HERE = frozenset(
    {
        "aten::_efficientzerotensor",
        "aten::_thnn_fused_gru_cell",
        "aten::_thnn_fused_lstm_cell",
        "aten::native_dropout",
    }
)
_UNTOUCHING = frozenset(
    {
        "aten::_reshape_alias",
        "aten::as_strided",
        "aten::record_stream",
        "aten::set_",
        "aten::unfold",
        "aten::view",
    }
)
_COLLECTIVES = ("c10d::", "_c10d_functional::", "c10d_functional::")


def operation_name(text: str) -> str:
    """Return the full name of the operation ``text``: ``aten::mm`` for ``mm``; ``all_reduce`` stays.

    A bare name that is both, such as ``gather``, means the collective library's call. Raises ValueError for an unknown
    name, with the nearest ones, and for an operator that never reaches the chip.
    """
    if text in CALLS or text == SYNCHRONIZE:
        return text
    overloads = _overloads()
    name = text if "::" in text else f"aten::{text}"
    if name not in overloads:
        raise ValueError(f"no such operator or collective: {_hint(text, overloads)}")
    if name.startswith(_COLLECTIVES):
        raise ValueError(f"{name} wraps a collective. Fix: name it, such as all_reduce")
    if name in _UNTOUCHING:
        raise ValueError(f"{name} touches no memory. Fix: name the op that uses it")
    if name in _COMPOSED_HERE or (not name.startswith(_WHOLE) and all(map(_is_composed, overloads[name]))):
        raise ValueError(f"{name} consists of other operators. Fix: name one of them")
    return name


def _overloads() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        found.setdefault(full.partition(".")[0], []).append(full)
    return found


def _is_composed(full: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has(full, key) for key in _COMPOSED) and not has(full, "CPU") and not has(full, "SparseCPU")


def _hint(text: str, overloads: dict[str, list[str]]) -> str:
    full = {name.removeprefix("aten::"): name for name in overloads}
    full.update((name, name) for name in (*CALLS, SYNCHRONIZE))
    near = get_close_matches(text.removeprefix("aten::").partition(".")[0], sorted(full), n=3)
    if not near:
        return "write it as torch does, such as aten::mm or all_reduce, and import what registers it first"
    return f"did you mean {' or '.join(full[name] for name in near)}?"
