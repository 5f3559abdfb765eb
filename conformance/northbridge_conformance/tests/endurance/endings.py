"""Runs whose endings are tested: with killed ranks, or two jobs side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from northbridge_conformance.run import RunResult, new_folder, play, read_said
from northbridge_conformance.runs.findings import read
from northbridge_conformance.runs.run_errors import HungError
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.runs.stacks import await_ends


@dataclass(frozen=True)
class End(RunResult):
    """The result of one run, with its exit codes and its end time."""

    codes: tuple[int, ...]
    """The exit codes of the processes that the suite started; minus the signal if one ended a process."""

    at: float
    """The time at which the last process of all runs had ended, in seconds since 1970."""

    left: list[str]
    """The command lines of processes that the run left behind."""


_ends: dict[tuple[tuple[Scenario, ...], tuple[tuple[str, str], ...]], tuple[End, ...] | HungError] = {}


def run_to_the_end(*scenarios: Scenario, environ: Mapping[str, str]) -> tuple[End, ...]:
    """Run ``scenarios`` at the same time, only once for this process, and return how each ended.

    Raises :class:`HungError` if one of them did not end within the limit, whichever process was killed in it.
    """
    key = (scenarios, tuple(sorted(environ.items())))
    if key not in _ends:
        try:
            _ends[key] = _run(scenarios, environ)
        except HungError as error:
            _ends[key] = error
    ends = _ends[key]
    if isinstance(ends, HungError):
        raise ends.with_traceback(None)  # as in run()
    return ends


def _run(scenarios: tuple[Scenario, ...], environ: Mapping[str, str]) -> tuple[End, ...]:
    plays = [(scenario, new_folder()) for scenario in scenarios]
    at: list[float] = []
    left: list[list[str]] = []

    def at_end() -> None:
        at.append(time.time())
        left.extend(await_ends(folder) for _, folder in plays)

    codes = play(plays, environ, at_end)
    return tuple(
        End(folder, read(folder), read_said(folder), tuple(each), at[0], lasting)
        for (_, folder), each, lasting in zip(plays, codes, left, strict=True)
    )
