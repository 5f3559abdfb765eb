"""The answer: where two runs first differ, in one sentence; a table of layers; and the distance over steps."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from northbridge.snapshots.alignment import align
from northbridge.snapshots.causes import compute_dtypes, name_cause
from northbridge.snapshots.comparison import OUTSIDE, Difference, Kind, LayerRow, PairedCall, StepComparison, owner_of
from northbridge.snapshots.records import SnapshotsRun

_NEAR = 12
_LARGE = 1e-3
KINDS: tuple[Kind, ...] = ("forward", "gradient", "update")
_UNMATCHED = "they are compiled, captured or not made there"
_WHY_NONE = (
    ("gradient", "its optimizer has other tensors than the model, or was not given to Snapshots"),
    ("update", "its model's parameters are empty between steps"),
)
_SAID = {
    "weights": "the weights differ before the step, by",
    "batch": "the batches differ by",
    "forward": "inputs equal to {sources}, outputs differ by",
    "gradient": "all before equal to {sources}, gradients differ by",
    "update": "gradients equal to {sources}, updates differ by",
}


@dataclass(frozen=True)
class Answer:
    """What the command says."""

    differs: bool
    cause: str
    """Empty if the runs are equal to the bit."""

    step: int
    rank: int
    phase: str
    path: str
    sentence: str
    table: list[LayerRow]
    curve: list[tuple[float, ...]]
    """The step, and the largest distances in forward, gradient and update."""

    notes: list[str]


def compare_runs(first: SnapshotsRun, second: SnapshotsRun) -> Answer:
    """Compare two runs. Raises :class:`northbridge.snapshots.records.RecordError`."""
    ranks = align(first, second)
    of_step: dict[int, list[StepComparison]] = defaultdict(list)
    for each in (each for _, steps in ranks for each in steps):
        of_step[each.first.step].append(each)
    found = [(at.first.step, rank, place) for rank, steps in ranks for place, at in enumerate(steps) if at.findings]
    farthest, _ = max(ranks, key=lambda of: max((each.largest(kind) for each in of[1] for kind in KINDS), default=0.0))
    step, rank, place = min(found, default=(0, farthest, 0))
    steps = dict(ranks)[rank]
    if found:
        at, finding = steps[place], steps[place].findings[0]
        phase, path = str(finding.phase), finding.path
        cause = name_cause(finding, at, steps[:place], [(each.first, each.second) for each in of_step[step]])
        sentence = _say(finding, at, rank if len(ranks) > 1 else None, cause)
    else:
        at, phase, path, cause, sentence = _say_rounding(steps)
    curve = [
        (each.first.step, *(max(other.largest(kind) for other in of_step[each.first.step]) for kind in KINDS))
        for each in steps
    ]
    notes = [*first.damages, *second.damages, *_note_absent(first, ranks)]
    return Answer(bool(found), cause, at.first.step, rank, phase, path, sentence, _near(at, path), curve, notes)


def _note_absent(run: SnapshotsRun, ranks: list[tuple[int, list[StepComparison]]]) -> list[str]:
    """Return a note on everything that could not be compared because a run does not have it."""
    steps = [each for _, all_of in ranks for each in all_of]
    runs = {"A": [each.first for each in steps], "B": [each.second for each in steps]}
    calls = {name: sum(len(each.calls) for each in of_run) for name, of_run in runs.items()}
    matched = calls["A"] - sum(each.unmatched for each in steps)
    notes: list[str] = []
    if len(ranks) < run.world_size:
        absent = run.world_size - len(ranks)
        notes.append(f"{absent} of {run.world_size} ranks are not compared: a run has no whole step of them")
    for one, other in ("AB", "BA"):
        if calls[one] > matched:
            notes.append(f"{calls[one] - matched} calls of {one} have no counterpart in {other}: {_UNMATCHED}")
    if not calls["A"]:
        notes.append("no module calls were recorded: the step is compiled or captured as a whole")
    for name, of_run in runs.items():
        for kind, why in _WHY_NONE:
            if not any(value.bits for step in of_run for value in step.named[kind].values()):
                notes.append(f"no {kind}s in {name}: {why}")
        if any(each.left_out for each in of_run):
            notes.append(f"a step of {name} has too many tensors: the module calls after them were left out")
    return notes


def _say(finding: Difference, at: StepComparison, rank: int | None, cause: str) -> str:
    where = f"step {at.first.step}, {'' if rank is None else f'rank {rank}, '}{finding.path or 'the model'}"
    if finding.call and finding.call.first.path == finding.path and finding.call.first.call:
        where += f", call {finding.call.first.call + 1}"
    if finding.values is None:
        return f"{where}: {finding.detail or _say_counts(finding.call)}; cause: {cause}"
    first, second = finding.values
    apart = _say_number(finding.distance)
    if first.shape != second.shape:
        apart = f"their shapes, {first.shape} and {second.shape}"
    elif first.lost != second.lost:
        apart = f"values that are not finite, {first.lost} and {second.lost} of {first.size:.0f}"
    (one, two), devices = compute_dtypes(finding.values), (at.first.device, at.second.device)
    dtypes = f"{one} on {' and '.join(dict.fromkeys(devices))}"
    if one != two:
        dtypes = f"it computes in {one} on {devices[0]} (A), and in {two} on {devices[1]} (B)"
    detail = f" ({finding.detail})" if finding.detail else ""
    said = _SAID[finding.phase].format(sources=_say_number(finding.sources))
    if finding.path == OUTSIDE and finding.phase == "forward":
        said = "the model's arguments differ by"
    return f"{where}{detail}: {said} {apart}; {dtypes}; cause: {cause}"


def _say_counts(call: PairedCall | None) -> str:
    if call is None:
        return "one run alone has it"
    kinds = "outputs" if len(call.first.outputs) != len(call.second.outputs) else "inputs"
    mine, other = (len(getattr(each, kinds)) for each in (call.first, call.second))
    return f"its {kinds} have {mine} tensors in A, {other} in B"


def _say_rounding(steps: list[StepComparison]) -> tuple[StepComparison, str, str, str, str]:
    last = steps[-1]
    # Rows are in the order in which the modules ended.
    cells = ((at, kind, row) for at in steps for kind in KINDS for row in at.rows.values())
    at, kind, row = next((cell for cell in cells if getattr(cell[2], cell[1]) > 0), (steps[0], "", None))
    if row is None:
        return at, "", "", "", f"no difference: {len(steps)} steps are equal to the bit"
    cause, why = "order of sums", ""
    if row.dtypes[0] != row.dtypes[1]:
        cause, why = "another dtype", f" ({row.dtypes[0]} in A and {row.dtypes[1]} in B)"
    where = f"step {at.first.step}, {row.path or 'the model'} ({kind}), by {_say_number(getattr(row, kind))}"
    largest = _say_number(max(last.largest(kind) for kind in KINDS[:2]))
    grows = f"by step {last.first.step} at most by {largest}"
    gap = next(((one, two) for one, two in pairwise(steps) if two.after_gap and two.largest("forward") > _LARGE), None)
    if gap is not None:
        one, two = (each.first.step for each in gap)
        grows += f", but steps {one + 1} to {two - 1} may hide a difference: record them in both"
    sentence = f"no difference beyond rounding: the first bits differ in {where}; {grows}; cause: {cause}{why}"
    return at, kind, row.path, cause, sentence


def _near(at: StepComparison, path: str) -> list[LayerRow]:
    """Return the modules around the first difference, in the order in which they end."""
    rows = list(at.rows.values())
    first = path.partition(" or ")[0]
    place = next((number for number, row in enumerate(rows) if row.path in (first, owner_of(first))), 0)
    start = max(0, min(place - _NEAR // 2, len(rows) - _NEAR))
    return rows[start : start + _NEAR]


def _say_number(number: float) -> str:
    return "the bit" if number == 0 else say_number(number)


def say_number(number: float) -> str:
    """Return one digit, such as 3e-7."""
    return f"{number:.0e}".replace("e-0", "e-").replace("e+00", "") if 0 < number < math.inf else "∞" if number else "0"
