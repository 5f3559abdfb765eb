"""Errors of a run that the suite starts in processes of its own."""

from __future__ import annotations


class RunError(RuntimeError):
    """A process of the run failed; the message ends with the output of the processes."""


class HungError(RunError):
    """The run exceeded its limit; the message has the stack of each of its processes."""
