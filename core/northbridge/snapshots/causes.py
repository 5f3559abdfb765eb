"""The cause of a difference, told from the measures of both runs."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from northbridge.snapshots.comparison import INPUT, OUTSIDE, Difference, PairedCall, StepComparison
from northbridge.snapshots.distance import distance
from northbridge.snapshots.records import MOST_OF_FLOAT32, ModuleCallRecord, Step, Value

_UNUSED_BITS = {"bfloat16": 16, "float16": 13}
"""The bits at the end of a float32 that are 0 if the number was computed in another dtype."""

_EQUAL = 1e-6
_TF32 = 3e-5, 4e-3
"""The distance that factors with 10 bits of mantissa explain in one product."""

_UNRELATED = 0.5
"""The distance above which two tensors have nothing in common, as those of two seeds."""

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
        return "another random stream" if _UNRELATED < finding.distance < math.inf else "other weights"
    if finding.path == OUTSIDE:
        return "the loss or its targets" if finding.phase == "gradient" else "code outside the model"
    if finding.phase in ("gradient", "update"):
        return _cause_of_update(finding, at, earlier)
    if finding.call is not None and finding.phase == "forward":
        first, second = finding.call.first, finding.call.second
        if (first.drew or second.drew) and finding.distance >= 1e-2 and not _draws_alike(finding.call, at):
            drops = first.drops or second.drops or first.training != second.training
            return "dropout" if drops else "another random stream"
        if first.training != second.training:
            return (
                f"training mode, {'on' if first.training else 'off'} in A and {'on' if second.training else 'off'} in B"
            )
        if _is_stale(finding.call, finding.values, at, earlier):
            return "a stale graph"
        if _is_tf32(finding, at, first):
            return "TF32"
    return "an operator of the chip"


def _cause_of_update(finding: Difference, at: StepComparison, earlier: Sequence[StepComparison]) -> str:
    """Return the cause of a gradient, or of an update whose gradient does not differ."""
    name = finding.path
    dtypes = [step.named["weight"][name].dtype for step in (at.first, at.second) if name in step.named["weight"]]
    if len({*dtypes}) > 1:
        return "another dtype"
    if finding.phase == "update":
        first, second = (step.settings.get(name, "") for step in (at.first, at.second))
        if first and second and first != second:
            other = [pair for pair in zip(first.split("; "), second.split("; "), strict=False) if len({*pair}) > 1]
            return (
                f"the optimizer's settings, {other[0][0]} in A and {other[0][1]} in B" if other else "another optimizer"
            )
        if earlier and _has_old_rate(at, earlier[-1]):
            return "a stale graph"
        return "an operator of the optimizer's step"
    if finding.values is None and finding.distance == math.inf:
        return "parameters that one run alone trains"
    if name in at.first.named["gradient"] and _have_one_factor(at, "gradient"):
        return "one factor of all gradients: the loss's scale, accumulation or clipping"
    return "an operator of the chip"


def _draws_alike(call: PairedCall, at: StepComparison) -> bool:
    """Return True if both calls had the same random numbers and the same use for them."""
    mine, other = call.first, call.second
    facts = [(each.random, each.drew, each.drops, each.training) for each in (mine, other)]
    return facts[0] == facts[1] and at.first.device == at.second.device


def compute_dtypes(values: tuple[Value, Value]) -> tuple[str, str]:
    """Return the dtypes in which the two values were computed, as far as unused bits of their samples tell."""
    first, second = (_computed_in(each) for each in values)
    return first, second


def _computed_in(value: Value) -> str:
    kept = {each for each in value.sample if 0 < abs(each) < MOST_OF_FLOAT32}
    if value.dtype == "float32" and len(kept) >= 4:  # a constant, such as 1, has no bits to tell by
        used = [int.from_bytes(struct.pack("<f", each), "little") for each in kept]
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
    kind, name = ("batch", finding.path[6:-1]) if finding.phase == "batch" else ("gradient", finding.path)
    if finding.phase == "gradient" and len(ranks) > 1:
        shared = [len({*_bits_of(steps, kind, name)}) == 1 for steps in zip(*ranks, strict=True)]
        return shared[0] != shared[1]
    is_copied = finding.phase == "batch" or (finding.phase == "gradient" and name in at.first.named[kind])
    if is_copied and first.lost != second.lost and any(each.lost > 0.5 * each.size for each in finding.values):
        return True
    if earlier and finding.phase in ("batch", "gradient") and name in at.first.named[kind]:
        runs = [[each.first for each in earlier], [each.second for each in earlier]]
        stale = [value.bits in _bits_of(run, kind, name) for value, run in zip(finding.values, runs, strict=True)]
        steps = (at.first, at.second)
        # A loader that repeats a batch repeats all of it.
        repeats = [any(old.named[kind] == now.named[kind] for old in run) for now, run in zip(steps, runs, strict=True)]
        return stale[0] != stale[1] and not any(repeats)
    is_empty = [bool(each.bits) and each.size > 16 and not each.norm for each in finding.values]
    return finding.phase == "batch" and is_empty[0] != is_empty[1]


def _bits_of(steps: Iterable[Step], kind: str, name: str) -> list[str]:
    return [step.named[kind][name].bits if name in step.named[kind] else "" for step in steps]


def _is_stale(
    call: PairedCall, values: tuple[Value, Value] | None, at: StepComparison, earlier: Sequence[StepComparison]
) -> bool:
    """Return True if one run alone called no parts of the module, or repeated a result although its inputs changed."""
    mine, other = call.first.number, call.second.number
    has_parts = any(each.inside == mine for each in at.first.calls)
    if has_parts != any(each.inside == other for each in at.second.calls):
        return True
    return values is not None and any(_stands_still(call, values, each) for each in earlier)


def _stands_still(call: PairedCall, values: tuple[Value, Value], before: StepComparison) -> bool:
    """Return True if the outputs of one run alone are almost those of the step ``before``."""
    moved = []
    for step, value in zip((before.first, before.second), values, strict=True):
        old = step.by_name.get((call.first.path, call.first.call))
        moved.append(min((distance(step.values[each], value) for each in (old.outputs if old else ())), default=0.0))
    return 1e-2 < max(moved) < math.inf and min(moved) < 0.3 * max(moved)


def _has_old_rate(at: StepComparison, before: StepComparison) -> bool:
    """Return True if all updates differ by one factor now, and did not before: a graph holds the learning rate."""
    return _have_one_factor(at, "update") and not _have_one_factor(before, "update")


def _have_one_factor(at: StepComparison, kind: str) -> bool:
    """Return True if most gradients or updates differ by one factor that is not 1."""
    factors = [second.norm / first.norm for _, first, second in at.pairs(kind) if first.norm and second.norm]
    middle = median(factors or [1.0])
    alike = sum(abs(each - middle) < 1e-2 * middle for each in factors)
    return alike > 0.8 * len(factors) and abs(middle - 1) > 2e-3


def _is_drawn_outside(finding: Difference, at: StepComparison) -> bool:
    """Return True if the first call's input is random: the step drew numbers before it."""
    is_first = finding.call is not None and finding.call.first.number == 0
    return is_first and finding.path in (INPUT, OUTSIDE) and (at.first.drew_before or at.second.drew_before)


def _is_tf32(finding: Difference, at: StepComparison, call: ModuleCallRecord) -> bool:
    """Return True if the step's products in float32 differ as those of factors of ten bits do.

    Each product of equal inputs then does. If there is one alone, it is told from another error by its chip.
    """
    low, high = _TF32
    if finding.values is None or finding.values[0].dtype != "float32" or not low < finding.distance < high:
        return False
    errors = [*_errors_of_products(at)]
    is_told = {at.first.device, at.second.device} != {"cpu"} or len({path for path, _ in errors}) > 1
    return is_told and _is_product(call, at) and all(low < each < high for _, each in errors)


def _errors_of_products(at: StepComparison) -> Iterator[tuple[str, float]]:
    """Yield the module and the distance of the results of each product that had equal inputs in both runs."""
    others = at.second.by_name
    for call in at.first.calls:
        other = others.get((call.path, call.call))
        if other is not None and _is_product(call, at) and _apart(at, call.inputs, other.inputs) < _EQUAL:
            yield call.path, _apart(at, call.outputs, other.outputs)


def _apart(at: StepComparison, mine: Sequence[int], others: Sequence[int]) -> float:
    pairs = zip(mine, others, strict=False)
    return max((distance(at.first.values[one], at.second.values[two]) for one, two in pairs), default=0.0)


def _is_product(call: ModuleCallRecord, at: StepComparison) -> bool:
    return any(name in call.of for name in _PRODUCTS) or ("Embedding" not in call.of and call.path in at.matrices)
