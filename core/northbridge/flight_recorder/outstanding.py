"""The calls that have not finished, asked now and then whether they have.

A library's future would say it by itself, but those of chips with streams are done when the work is queued; so the work
is asked. That keeps its tensors a moment longer than it would live else: a fiftieth of a second.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from northbridge.ending import describe_error

if TYPE_CHECKING:
    from collections.abc import Callable

_SHORTEST_S = 0.02
_LONGEST_S = 0.5
_PATIENCE_S = 5.0
End = tuple[int, str, str]
"""The call's number; "finished", "failed", "over" where the library does not say which, or "unknown"; and why."""


class Outstanding:
    """Tell ``ended`` what has become of calls; of more than ``most`` at once, the oldest are given up."""

    def __init__(self, ended: Callable[[list[End]], None], *, most: int) -> None:
        self._ended = ended
        self._most = most
        self._works: dict[int, Any] = {}
        self._lock = threading.RLock()
        self._more = threading.Event()
        self._thread: threading.Thread | None = None
        self._ending = False

    def follow(self, call: int, boxed: Any) -> None:
        """Watch the work that a library has returned for ``call``, as the dispatcher hands it over."""
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
        """Follow none of the calls any longer."""
        with self._lock:
            self._works.clear()

    def end(self) -> None:
        """Ask a last time. Called when the interpreter ends: a thread that is inside torch then takes it down."""
        self._ending = True
        self._more.set()
        if self._thread is not None:
            self._thread.join(timeout=_PATIENCE_S)
        self.ask()
        self.drop()

    def _watch(self) -> None:
        pause = _SHORTEST_S
        while not self._ending:
            self._more.wait(pause if self._works else None)
            if self._more.is_set():
                self._more.clear()
                pause = _SHORTEST_S
                time.sleep(pause)
            pause = _SHORTEST_S if self.ask() else min(2 * pause, _LONGEST_S)

    def ask(self) -> list[End]:
        """Ask every call's work, tell what has ended, and return that."""
        with self._lock:
            works = list(self._works.items())
        ends = [(call, *how) for call, work in works if (how := _how_it_ended(work)) is not None]
        with self._lock:
            for call, *_ in ends:
                self._works.pop(call, None)
        if ends:
            self._ended(ends)
        return ends


def _unbox(boxed: Any) -> Any:
    import torch.distributed

    if boxed is None:
        return None
    try:
        return torch.distributed.Work.unbox(boxed)
    except RuntimeError:  # a library's work that is not torch's
        return None


def _how_it_ended(work: Any) -> tuple[str, str] | None:
    # Not wait(): a second one may wait for ever. Nor is_success(), at which torch prints that it is deprecated.
    try:
        if not work.is_completed():
            return None
        future = work.get_future()
    except Exception:  # noqa: BLE001 - a vendor's: the work of sends and receives mostly has no future
        return "over", ""
    try:
        if future.done():
            future.value()
    except Exception as error:  # noqa: BLE001 - whatever the library failed with
        return "failed", describe_error(error)
    return "finished", ""
