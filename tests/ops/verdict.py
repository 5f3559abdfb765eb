"""Faults in the outcomes, without the known exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.ops.exceptions import EXCEPTIONS, MOST, NOT_ON_THE_CPU, RANDOM_LAYERS
from tests.ops.pool import Finished


def complaints(finished: Iterable[Finished], exceptions: Mapping[str, str] = EXCEPTIONS) -> list[str]:
    """Return a line for each entry that fails unlisted, or is listed and passes, or is excused of more than a refusal.

    A refusal is an error that names the operator and says that the chip does not compute it. No layer is excused, save
    that those that draw random numbers may differ by rounding.
    """
    lines = []
    for done in finished:
        name = str(done.entry)
        if name in exceptions:
            if not done.failed:
                lines.append(f"{name}: is listed as an exception, but gives the CPU's results; take it off the list")
            elif done.entry.name in RANDOM_LAYERS and done.rounded == done.failed:
                continue
            elif done.refused < done.failed:
                lines.append(f"{name}: is listed as an exception, but does worse than refuse: {_told(done)}")
            elif done.entry.kind == "layer":
                lines.append(f"{name}: is listed as an exception, but no layer may be")
        elif done.failed:
            lines.append(f"{name}: {_told(done)}")
    return lines


def complaints_of_whole(finished: Iterable[Finished], exceptions: Mapping[str, str] = EXCEPTIONS) -> list[str]:
    """Return the complaints of a run of all entries: whether the list of exceptions is too long, or names nothing."""
    finished = list(finished)
    lines = complaints(finished, exceptions)
    names = {str(done.entry) for done in finished}
    lines += [
        f"{done.entry}: no call of this layer runs on the CPU, so that nothing was compared"
        for done in finished
        if done.entry.kind == "layer" and not done.calls and str(done.entry) not in NOT_ON_THE_CPU
    ]
    lines += [
        f"{done.entry}: is listed as one that the CPU does not run, but it does; take it off the list"
        for done in finished
        if done.calls and str(done.entry) in NOT_ON_THE_CPU
    ]
    lines += [
        f"{name}: is listed as an exception, but there is no such entry" for name in exceptions if name not in names
    ]
    run = sum(done.calls > 0 for done in finished if done.entry.kind == "operator")
    if len(exceptions) > MOST * run:
        lines.append(
            f"{len(exceptions)} exceptions are listed, more than {MOST:.0%} of the {run} operators that the CPU runs"
        )
    return lines


def _told(done: Finished) -> str:
    return f"{done.failed} of {done.calls} calls fail: " + "; ".join(done.failures)
