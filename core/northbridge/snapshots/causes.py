"""The cause of a difference, told from the measures of both runs."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal

from northbridge.snapshots.comparison import INPUT, OUTSIDE, Difference, StepComparison
from northbridge.snapshots.distance import distance
from northbridge.snapshots.records import ModuleCallRecord, Step, Value

Cause = Literal[
    "another batch",
    "another random stream",
    "dropout",
    "another dtype",
    "TF32",
    "a missing synchronisation",
    "a stale graph",
    "an operator of the chip",
    "order of sums",
]

_UNUSED_BITS = {"bfloat16": 16, "float16": 13}
"""The bits at the end of a float32 that are 0 if the number was computed in another dtype."""

_TF32 = 3e-5, 4e-3
"""The distance that factors with 10 bits of mantissa explain in one product."""

_PRODUCTS = ("Linear", "Conv", "Attention", "LSTM", "GRU", "RNN", "Bilinear")


def name_cause(
    finding: Difference, at: StepComparison, earlier: Sequence[StepComparison], ranks: Mapping[int, tuple[Step, Step]]
) -> Cause:
    """Return the cause of ``finding`` in step ``at``, after ``earlier`` ones; ``ranks`` has both steps of each."""
    if _is_unsynchronised(finding, at, earlier, ranks):
        return "a missing synchronisation"
    if _is_drawn_outside(finding, at):
        return "another random stream"
    if finding.phase == "batch":
        return "another batch"
    if _has_other_dtype(finding):
        return "another dtype"
    if finding.phase == "weights" and not earlier:
        return "another random stream"
    if _is_stale(finding, at, earlier):
        return "a stale graph"
    random = _random_cause(finding)
    if random is not None:
        return random
    return "TF32" if _is_tf32(finding, at) else "an operator of the chip"


def compute_dtypes(values: tuple[Value, Value]) -> tuple[str, str]:
    """Return the dtypes in which the two values were computed, as far as unused bits of their samples tell."""
    first, second = (_computed_in(each) for each in values)
    return first, second


def _computed_in(value: Value) -> str:
    if value.dtype != "float32" or not value.bits:
        return value.dtype
    used = [int.from_bytes(struct.pack("<f", each), "little") for each in value.samples if each]
    for dtype, unused in _UNUSED_BITS.items():
        if len(used) >= 4 and not any(each & ((1 << unused) - 1) for each in used):
            return dtype
    return value.dtype


def _has_other_dtype(finding: Difference) -> bool:
    if finding.values is None:
        return False
    first, second = compute_dtypes(finding.values)
    return first != second


def _is_unsynchronised(
    finding: Difference, at: StepComparison, earlier: Sequence[StepComparison], ranks: Mapping[int, tuple[Step, Step]]
) -> bool:
    """Return True for memory that was read too early, and for gradients that the ranks of one run alone share."""
    if finding.values is None:
        return False
    first, second = finding.values
    if finding.calls and ("SyncBatchNorm" in finding.calls[0].of) != ("SyncBatchNorm" in finding.calls[1].of):
        return True
    if first.lost != second.lost and any(each.lost > 0.5 * each.size for each in finding.values):
        return True
    if finding.phase == "gradient" and len(ranks) > 1:
        agree = [
            len({_bits_of(step, finding.path) for step in steps}) == 1 for steps in zip(*ranks.values(), strict=True)
        ]
        return agree[0] != agree[1]
    copied = finding.phase == "batch" or (finding.phase == "gradient" and finding.path in at.first.named["gradient"])
    if not copied or not earlier:
        return _is_constant(first) != _is_constant(second) and finding.phase == "batch"
    kind, name = ("batch", finding.path[6:-1]) if finding.phase == "batch" else ("gradient", finding.path)
    before = [(each.first.named[kind].get(name), each.second.named[kind].get(name)) for each in earlier]
    stale = [
        any(old is not None and old.bits == new.bits for old in olds)
        for new, olds in zip(finding.values, zip(*before, strict=True), strict=True)
    ]
    return stale[0] != stale[1]


def _bits_of(step: Step, name: str) -> str:
    value = step.named["gradient"].get(name)
    return "" if value is None else value.bits


def _is_constant(value: Value) -> bool:
    return bool(value.bits) and value.size > 1 and len({*value.samples}) == 1


def _is_stale(finding: Difference, at: StepComparison, earlier: Sequence[StepComparison]) -> bool:
    """Return True if one run alone called no parts of the module, or repeated a result although its inputs changed."""
    if finding.phase == "update":
        return bool(earlier) and _has_old_rate(at, earlier[-1])
    if finding.calls is None:
        return False
    first, second = (
        any(each.inside == call.number for each in step.calls.values())
        for step, call in zip((at.first, at.second), finding.calls, strict=True)
    )
    return first != second or (finding.values is not None and any(_stands_still(finding, each) for each in earlier))


def _stands_still(finding: Difference, before: StepComparison) -> bool:
    """Return True if the outputs of one run alone are almost those of the step ``before``."""
    moved = []
    for step, call, value in zip((before.first, before.second), finding.calls or (), finding.values or (), strict=True):
        old = step.calls.get((call.path, call.call))
        moved.append(min((distance(step.values[each], value) for each in (old.outputs if old else ())), default=0.0))
    return bool(moved) and 1e-2 < max(moved) < math.inf and min(moved) < 0.3 * max(moved)


def _has_old_rate(at: StepComparison, before: StepComparison) -> bool:
    """Return True if all updates differ by one factor now, and did not before: a graph holds the learning rate."""
    factors = [
        [second.norm / first.norm for _, first, second in each.pairs("update") if first.norm and second.norm]
        for each in (at, before)
    ]
    if not all(factors):
        return False
    now, then = factors
    middle = median(now)
    alike = [abs(each - middle) < 1e-2 * middle for each in now]
    return sum(alike) > 0.8 * len(alike) and abs(middle - 1) > 2e-3 and abs(median(then) - 1) < 2e-3


def _is_drawn_outside(finding: Difference, at: StepComparison) -> bool:
    """Return True if the first call's input is random: the step drew numbers before it."""
    if finding.calls is None or finding.path not in (INPUT, OUTSIDE):
        return False
    begins = [(step.random, call.random) for step, call in zip((at.first, at.second), finding.calls, strict=True)]
    return finding.calls[0].number == 0 and any(before != after for before, after in begins)


def _random_cause(finding: Difference) -> Cause | None:
    if finding.calls is None or finding.phase != "forward":
        return None
    first, second = finding.calls
    if not (first.drew or second.drew) or finding.distance < 1e-2:
        return None
    return "dropout" if first.drops or second.drops or first.training != second.training else "another random stream"


def _is_tf32(finding: Difference, at: StepComparison) -> bool:
    """Return True if the first product of the step is in float32, and its distance is that of factors of ten bits."""
    if finding.phase != "forward" or finding.calls is None or finding.values is None:
        return False
    call, _ = finding.calls
    low, high = _TF32
    earlier = [each for each in at.first.calls.values() if each.number < call.number and _is_product(each, at)]
    is_first = all(at.rows[each.path].forward > low for each in earlier if each.path in at.rows)
    return finding.values[0].dtype == "float32" and low < finding.distance < high and is_first and _is_product(call, at)


def _is_product(call: ModuleCallRecord, at: StepComparison) -> bool:
    weights = at.first.named["weight"].items()
    own = any(name.rpartition(".")[0] == call.path and len(value.shape) > 1 for name, value in weights)
    return any(name in call.of for name in _PRODUCTS) or (own and "Embedding" not in call.of)
