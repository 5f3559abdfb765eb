"""The cause of a difference, told from the measures of both runs."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from statistics import median

from northbridge.snapshots.comparison import INPUT, OUTSIDE, Call, Difference, StepComparison, owner_of
from northbridge.snapshots.distance import distance
from northbridge.snapshots.records import ModuleCallRecord, Step, Value

_UNUSED_BITS = {"bfloat16": 16, "float16": 13}
"""The bits at the end of a float32 that are 0 if the number was computed in another dtype."""

_TF32 = 3e-5, 4e-3
"""The distance that factors with 10 bits of mantissa explain in one product."""

_PRODUCTS = ("Linear", "Conv", "Attention", "LSTM", "GRU", "RNN", "Bilinear")


def name_cause(
    finding: Difference, at: StepComparison, earlier: Sequence[StepComparison], ranks: Sequence[tuple[Step, Step]]
) -> str:
    """Return the cause of ``finding`` in step ``at``, after ``earlier`` ones; ``ranks`` has both steps of each."""
    if _is_unsynchronised(finding, at, earlier, ranks):
        return "a missing synchronisation"
    if _is_drawn_outside(finding, at):
        return "another random stream"
    if finding.phase == "batch":
        return "another batch"
    if finding.values and len({*compute_dtypes(finding.values)}) > 1:
        return "another dtype"
    if finding.phase == "weights" and not earlier:
        return "another random stream"
    if _is_stale(finding, at, earlier):
        return "a stale graph"
    if finding.call is not None and finding.phase == "forward":
        first, second = finding.call.first, finding.call.second
        if (first.drew or second.drew) and finding.distance >= 1e-2:
            drops = first.drops or second.drops or first.training != second.training
            return "dropout" if drops else "another random stream"
        if _is_tf32(finding, at, first):
            return "TF32"
    return "an operator of the chip"


def compute_dtypes(values: tuple[Value, Value]) -> tuple[str, str]:
    """Return the dtypes in which the two values were computed, as far as unused bits of their samples tell."""
    first, second = (_computed_in(each) for each in values)
    return first, second


def _computed_in(value: Value) -> str:
    used = [int.from_bytes(struct.pack("<f", each), "little") for each in value.sample if each]
    if value.dtype == "float32" and len(used) >= 4:
        for dtype, unused in _UNUSED_BITS.items():
            if not any(each & ((1 << unused) - 1) for each in used):
                return dtype
    return value.dtype


def _is_unsynchronised(
    finding: Difference, at: StepComparison, earlier: Sequence[StepComparison], ranks: Sequence[tuple[Step, Step]]
) -> bool:
    """Return True for memory that was read too early, and for gradients that the ranks of one run alone share."""
    if finding.values is None:
        return False
    first, second = finding.values
    call = finding.call
    if call and ("SyncBatchNorm" in call.first.of) != ("SyncBatchNorm" in call.second.of):
        return True
    if first.lost != second.lost and any(each.lost > 0.5 * each.size for each in finding.values):
        return True
    kind, name = ("batch", finding.path[6:-1]) if finding.phase == "batch" else ("gradient", finding.path)
    if finding.phase == "gradient" and len(ranks) > 1:
        shared = [len({*_bits_of(steps, kind, name)}) == 1 for steps in zip(*ranks, strict=True)]
        return shared[0] != shared[1]
    if earlier and finding.phase in ("batch", "gradient") and name in at.first.named[kind]:
        runs = zip(*((each.first, each.second) for each in earlier), strict=True)
        stale = [value.bits in _bits_of(run, kind, name) for value, run in zip(finding.values, runs, strict=True)]
        return stale[0] != stale[1]
    constant = [bool(each.bits) and each.size > 1 and len({*each.sample}) == 1 for each in finding.values]
    return finding.phase == "batch" and constant[0] != constant[1]


def _bits_of(steps: Iterable[Step], kind: str, name: str) -> list[str]:
    return [step.named[kind][name].bits if name in step.named[kind] else "" for step in steps]


def _is_stale(finding: Difference, at: StepComparison, earlier: Sequence[StepComparison]) -> bool:
    """Return True if one run alone called no parts of the module, or repeated a result although its inputs changed."""
    if finding.phase == "update":
        return bool(earlier) and _has_old_rate(at, earlier[-1])
    if finding.call is None:
        return False
    mine, other = (each.number for each in (finding.call.first, finding.call.second))
    has_parts = any(each.inside == mine for each in at.first.calls)
    if has_parts != any(each.inside == other for each in at.second.calls):
        return True
    return any(_stands_still(finding.call, finding.values, each) for each in earlier) if finding.values else False


def _stands_still(call: Call, values: tuple[Value, Value], before: StepComparison) -> bool:
    """Return True if the outputs of one run alone are almost those of the step ``before``."""
    moved = []
    for step, value in zip((before.first, before.second), values, strict=True):
        old = step.by_name.get((call.first.path, call.first.call))
        moved.append(min((distance(step.values[each], value) for each in (old.outputs if old else ())), default=0.0))
    return 1e-2 < max(moved) < math.inf and min(moved) < 0.3 * max(moved)


def _has_old_rate(at: StepComparison, before: StepComparison) -> bool:
    """Return True if all updates differ by one factor now, and did not before: a graph holds the learning rate."""
    now, then = (
        [second.norm / first.norm for _, first, second in each.pairs("update") if first.norm and second.norm]
        for each in (at, before)
    )
    if not now or not then:
        return False
    middle = median(now)
    alike = sum(abs(each - middle) < 1e-2 * middle for each in now)
    return alike > 0.8 * len(now) and abs(middle - 1) > 2e-3 and abs(median(then) - 1) < 2e-3


def _is_drawn_outside(finding: Difference, at: StepComparison) -> bool:
    """Return True if the first call's input is random: the step drew numbers before it."""
    is_first = finding.call is not None and finding.call.first.number == 0
    return is_first and finding.path in (INPUT, OUTSIDE) and (at.first.drew_before or at.second.drew_before)


def _is_tf32(finding: Difference, at: StepComparison, call: ModuleCallRecord) -> bool:
    """Return True if the first product of the step is in float32, and its distance is that of factors of ten bits."""
    low, high = _TF32
    if finding.values is None or finding.values[0].dtype != "float32" or not low < finding.distance < high:
        return False
    earlier = [each for each in at.first.calls[: call.number] if each.path in at.rows and _is_product(each, at)]
    return _is_product(call, at) and all(at.rows[each.path].forward > low for each in earlier)


def _is_product(call: ModuleCallRecord, at: StepComparison) -> bool:
    own = any(owner_of(name) == call.path and len(value.shape) > 1 for name, value in at.first.named["weight"].items())
    return any(name in call.of for name in _PRODUCTS) or (own and "Embedding" not in call.of)
