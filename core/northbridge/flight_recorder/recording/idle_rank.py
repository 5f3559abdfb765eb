"""Recording of the place where an idle rank is stuck, while other ranks wait for its call."""

from __future__ import annotations

import threading
from collections.abc import Callable

_IDLE_S = 5.0
_LONGEST_S = 300.0
_MOST = 100
"""Limit of records between two calls, so that they do not push out the calls."""


class Idling:
    """Call ``tell`` after some seconds without a call, and again at growing intervals while that lasts."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._calls = 0
        self._end = threading.Event()

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._watch, name="flight recorder: idling", daemon=True).start()

    def called(self) -> None:
        """Note that a call was made."""
        self._calls += 1

    def end(self) -> None:
        """Stop watching."""
        self._end.set()

    def _watch(self) -> None:
        seen, told, pause = self._calls, 0, _IDLE_S
        while not self._end.wait(pause):
            if self._calls != seen:
                seen, told, pause = self._calls, 0, _IDLE_S
            elif told < _MOST:
                self._tell()
                told, pause = told + 1, min(2 * pause, _LONGEST_S)
