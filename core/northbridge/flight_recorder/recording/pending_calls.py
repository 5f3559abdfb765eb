"""Calls that have not finished, checked at intervals.

A library's future would report the end itself, but on chips with streams it is done when the work is queued. So the
work is checked, at the next call and at intervals of 0.02 to 0.5 s. That keeps its tensors alive a moment longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from northbridge.processes.endings import describe_error

_SHORTEST_S = 0.02
_LONGEST_S = 0.5
_PATIENCE_S = 5.0
_AT_A_CALL = 4
End = tuple[int, str, str]
"""The call's number; "finished", "failed", "over" if the library does not say which, or "unknown"; and the reason."""


class Outstanding:
    """Report the end of calls to ``ended``; give up the oldest if there are more than ``most`` at once."""

    def __init__(self, ended: Callable[[list[End]], None], *, most: int) -> None:
        self._ended = ended
        self._most = most
        self._works: dict[int, Any] = {}
        self._lock = threading.RLock()
        self._more = threading.Event()
        self._thread: threading.Thread | None = None
        self._ending = False
        self._pause = _SHORTEST_S

    def follow(self, call: int, boxed: Any) -> None:
        """Watch the work that a library has returned for ``call``, in the dispatcher's form."""
        self.ask(first=_AT_A_CALL)  # the thread comes too late for a chip whose memory is nearly full
        work = _unbox(boxed)
        if work is None:
            self._ended([(call, "unknown", "")] if boxed is not None else [(call, "finished", "")])
            return
        with self._lock:
            self._works[call] = work
            oldest = next(iter(self._works)) if len(self._works) > self._most else None
            if oldest is not None:
                del self._works[oldest]
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="flight recorder", daemon=True)
                self._thread.start()
        if oldest is not None:
            self._ended([(oldest, "unknown", "the library has not said it for long")])
        self._more.set()

    def drop(self) -> None:
        """Stop following all calls."""
        with self._lock:
            self._works.clear()

    def end(self) -> None:
        """Check a last time. Called when the interpreter ends: a thread that is inside torch then would crash it."""
        self._ending = True
        self._more.set()
        if self._thread is not None:
            self._thread.join(timeout=_PATIENCE_S)
        self.ask()
        self.drop()

    def _watch(self) -> None:
        while not self._ending:
            self._more.wait(self._pause if self._works else None)
            if self._more.is_set():
                self._more.clear()
                self._pause = _SHORTEST_S
                time.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_S)
            self.ask()

    def ask(self, first: int | None = None) -> None:
        """Check every call, or the ``first`` oldest, and report those that have ended."""
        with self._lock:
            works = list(islice(self._works.items(), first))
        ends = [(call, *how) for call, work in works if (how := _how_it_ended(work)) is not None]
        with self._lock:
            # Two threads may have checked at once.
            ends = [end for end in ends if self._works.pop(end[0], None) is not None]
            self._pause = _SHORTEST_S if ends else self._pause
        if ends:
            self._ended(ends)


def _unbox(boxed: Any) -> Any:
    import torch.distributed

    if boxed is None:
        return None
    try:
        return torch.distributed.Work.unbox(boxed)
    except RuntimeError:  # the library's work is not torch's
        return None


def _how_it_ended(work: Any) -> tuple[str, str] | None:
    # Not wait(): a second wait() may block for ever. Nor is_success(), at which torch prints a deprecation. The future
    # first: checking a work may make a library count its results as waited for.
    try:
        future = work.get_future()
    except Exception:  # noqa: BLE001 - a vendor's error: sends and receives mostly have no future
        future = None
    try:
        if future is None:
            return ("over", "") if work.is_completed() else None
        if not future.done():
            return None
        future.value()
    except Exception as error:  # noqa: BLE001 - any error of the library
        return "failed", describe_error(error)
    return "finished", ""
