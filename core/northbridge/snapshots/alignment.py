"""Alignment of two runs by rank, step and name."""

from __future__ import annotations

from northbridge.snapshots.comparison import Forward, StepComparison, compare_weights
from northbridge.snapshots.gradients import Gradients, compare_updates
from northbridge.snapshots.records import RecordError, SnapshotsRun, Step


def align(first: SnapshotsRun, second: SnapshotsRun) -> list[tuple[int, list[StepComparison]]]:
    """Compare the common steps of each rank. Raises :class:`RecordError` if the runs cannot be compared."""
    if first.world_size != second.world_size:
        sizes = f"{first.folder} has {first.world_size} ranks, {second.folder} has {second.world_size}"
        raise RecordError(f"{sizes}. Fix: compare runs of one world size")
    found = []
    for rank in sorted(first.ranks.keys() & second.ranks.keys()):
        steps, others = first.ranks[rank], second.ranks[rank]
        common = sorted(steps.keys() & others.keys())
        if not common:
            have = f"{_say_steps(steps)} in A, {_say_steps(others)} in B"
            raise RecordError(f"rank {rank}: no common step: {have}. Fix: record the same steps=")
        _match_names(steps, others, rank)
        compared: list[StepComparison] = []
        for step in common:
            before = compared[-1] if compared else None
            after_gap = before is not None and before.first.step < step - 1
            at = StepComparison(steps[step], others[step], after_gap)
            compare_weights(at, before)
            Gradients(at, Forward(at))
            compare_updates(at, before)
            compared.append(at)
        found.append((rank, compared))
    if not found:
        raise RecordError(f"no rank is in both {first.folder} and {second.folder}. Fix: copy the files of all ranks")
    return found


def _say_steps(steps: dict[int, Step]) -> str:
    return f"{min(steps)}" if len(steps) == 1 else f"{len(steps)} from {min(steps)} to {max(steps)}"


def _match_names(first: dict[int, Step], second: dict[int, Step], rank: int) -> None:
    """Remove the prefix that all names of one run have, as in a LightningModule. Raises :class:`RecordError`."""
    for run, other in ((first, second), (second, first)):
        long, short = _shapes(run), _shapes(other)
        prefix = min(long, default="").removesuffix(min(short, default=""))
        if prefix.endswith(".") and {f"{prefix}{name}" for name in short} == {*long}:
            run.update({number: step.without(prefix) for number, step in run.items()})
    shapes, others = _shapes(first), _shapes(second)
    if shapes != others:
        name = min({*shapes} ^ {*others} or {name for name in shapes if shapes[name] != others[name]})
        found = f"{name!r} is {shapes.get(name, 'missing')} in A and {others.get(name, 'missing')} in B"
        raise RecordError(f"rank {rank}: the models differ: {found}. Fix: compare runs of one model")


def _shapes(steps: dict[int, Step]) -> dict[str, list[int]]:
    return {name: value.shape for name, value in steps[min(steps)].named["weight"].items()}
