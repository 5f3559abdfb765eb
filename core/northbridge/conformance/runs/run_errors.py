"""Errors of a run that the suite starts in processes of its own."""

from __future__ import annotations


class RunError(RuntimeError):
    """A process of the run failed; the message ends with what the processes said."""


class HungError(RunError):
    """The run has not ended within its time; the message holds the stack of each of its processes."""
