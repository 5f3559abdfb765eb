"""The answer: where two runs first differ, in one sentence; a table of layers; and the distance over steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from northbridge.snapshots.alignment import align
from northbridge.snapshots.causes import compute_dtypes, name_cause
from northbridge.snapshots.comparison import Difference, LayerRow, StepComparison
from northbridge.snapshots.records import SnapshotsRun, Value

_NEAR = 12
KINDS: tuple[Literal["forward", "gradient", "update"], ...] = ("forward", "gradient", "update")


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
    found = [
        (each.first.step, rank, place) for rank, steps in ranks for place, each in enumerate(steps) if each.findings
    ]
    notes = [*first.damages, *second.damages, *_note_absent(first, ranks)]
    if found:
        step, rank, place = min(found)
        steps = dict(ranks)[rank]
        at, finding = steps[place], steps[place].findings[0]
        same_step = {
            each: (other.first, other.second) for each, all_of in ranks for other in all_of if other.first.step == step
        }
        cause: str = name_cause(finding, at, steps[:place], same_step)
        sentence = _say(finding, at, rank, cause, len(ranks))
        path = finding.path
        phase: str = finding.phase
    else:
        rank, steps = ranks[0]
        at, phase, path, cause, sentence = _say_rounding(steps)
    curve = [
        (each.first.step, *(max(other.largest(kind) for other in _of_step(ranks, each.first.step)) for kind in KINDS))
        for each in steps
    ]
    return Answer(bool(found), cause, at.first.step, rank, phase, path, sentence, _near(at, path), curve, notes)


def _note_absent(run: SnapshotsRun, ranks: list[tuple[int, list[StepComparison]]]) -> list[str]:
    """Return a note on everything that could not be compared because a run does not have it."""
    steps = [each for _, all_of in ranks for each in all_of]
    notes: list[str] = []
    if len(ranks) < run.world_size:
        absent = run.world_size - len(ranks)
        notes.append(f"{absent} of {run.world_size} ranks are not compared: a run has no whole step of them")
    unmatched = sum(each.unmatched for each in steps)
    others = sum(len(each.second.calls) - len(each.first.calls) for each in steps) + unmatched
    for count, one, other in ((unmatched, "A", "B"), (others, "B", "A")):
        if count:
            why = "they are compiled, captured or not made there"
            notes.append(f"{count} calls of {one} have no counterpart in {other}: {why}")
    if not any(each.first.calls for each in steps):
        notes.append("no module calls were recorded: the step is compiled or captured as a whole")
    for name, of_run in (("A", [each.first for each in steps]), ("B", [each.second for each in steps])):
        for kind, why in _WHY_NONE:
            if not any(value.bits for step in of_run for value in step.named[kind].values()):
                notes.append(f"no {kind}s in {name}: {why}")
        if any(each.left_out for each in of_run):
            notes.append(f"a step of {name} has too many tensors: the module calls after them were left out")
    return notes


_WHY_NONE = (
    ("gradient", "its optimizer has other tensors than the model, or was not given to Snapshots"),
    ("update", "its model's parameters are empty between steps"),
)


def _of_step(ranks: list[tuple[int, list[StepComparison]]], step: int) -> list[StepComparison]:
    return [each for _, steps in ranks for each in steps if each.first.step == step]


def _say(finding: Difference, at: StepComparison, rank: int, cause: str, world_size: int) -> str:
    where = f"step {at.first.step}, {f'rank {rank}, ' if world_size > 1 else ''}{finding.path or 'the model'}"
    if finding.calls is not None and finding.calls[0].path == finding.path and finding.calls[0].call:
        where += f", call {finding.calls[0].call + 1}"
    what = {
        "weights": "the weights differ before the step, by",
        "batch": "the batches differ by",
        "forward": f"inputs equal to {_say_number(finding.sources)}, outputs differ by",
        "gradient": f"all before equal to {_say_number(finding.sources)}, gradients differ by",
        "update": f"gradients equal to {_say_number(finding.sources)}, updates differ by",
    }[finding.phase]
    apart = (
        finding.detail or "their tensors differ in number"
        if finding.values is None
        else f"{what} {_say_distance(finding, finding.values)}"
    )
    detail = f" ({finding.detail})" if finding.detail and apart != finding.detail else ""
    dtypes = _say_dtypes(finding, at)
    return f"{where}{detail}: {apart}; {dtypes}cause: {cause}"


def _say_distance(finding: Difference, values: tuple[Value, Value]) -> str:
    first, second = values
    if first.shape != second.shape:
        return f"their shapes, {first.shape} and {second.shape}"
    if first.lost != second.lost:
        return f"values that are not finite, {first.lost} and {second.lost} of {first.size:.0f}"
    return _say_number(finding.distance)


def _say_dtypes(finding: Difference, at: StepComparison) -> str:
    if finding.values is None:
        return ""
    (first, second), devices = compute_dtypes(finding.values), (at.first.device, at.second.device)
    if first == second:
        on = devices[0] if devices[0] == devices[1] else f"{devices[0]} and {devices[1]}"
        return f"{first} on {on}; "
    return f"it computes in {first} on {devices[0]} (A), and in {second} on {devices[1]} (B); "


def _say_rounding(steps: list[StepComparison]) -> tuple[StepComparison, str, str, str, str]:
    last = steps[-1]
    for each in steps:
        # Rows are in the order in which the modules ended.
        first = next(((kind, row) for kind in KINDS for row in each.rows.values() if getattr(row, kind) > 0), None)
        if first is not None:
            phase, row = first
            size, largest = getattr(row, phase), max(last.largest(kind) for kind in KINDS[:2])
            other = row.dtypes[0] != row.dtypes[1]
            cause = "another dtype" if other else "order of sums"
            why = f" ({row.dtypes[0]} in A and {row.dtypes[1]} in B)" if other else ""
            where = f"step {each.first.step}, {row.path or 'the model'} ({phase})"
            begins = f"the first bits differ in {where}, by {_say_number(size)}"
            grows = f"by step {last.first.step} at most by {_say_number(largest)}"
            sentence = f"no difference beyond rounding: {begins}; {grows}; cause: {cause}{why}"
            return each, phase, row.path, cause, sentence
    return steps[0], "", "", "", f"no difference: {len(steps)} steps are equal to the bit"


def _say_number(number: float) -> str:
    return "the bit" if number == 0 else say_number(number)


def _near(at: StepComparison, path: str) -> list[LayerRow]:
    """Return the modules around the first difference, in the order in which they end."""
    rows = list(at.rows.values())
    first = path.partition(" or ")[0]
    owners = (first, first.rpartition(".")[0])
    place = next((number for number, row in enumerate(rows) if row.path in owners), 0)
    start = max(0, min(place - _NEAR // 2, len(rows) - _NEAR))
    return rows[start : start + _NEAR]


def say_number(number: float) -> str:
    """Return one digit, such as 3e-7."""
    return (
        "0" if number == 0 else "∞" if math.isinf(number) else f"{number:.0e}".replace("e-0", "e-").replace("e+00", "")
    )
