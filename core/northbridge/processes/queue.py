"""A queue of questions to children, a few of which run at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from northbridge.processes.child import Reply, Stage, ask

if TYPE_CHECKING:
    Tell = Callable[[str, str], None]
    """Called with who is being asked, and what; with nothing when the answer is there."""


class Queue(ThreadPoolExecutor):
    """Threads that ask children, a few of them at a time. When this context ends, the children do."""

    def __init__(self, tell: Tell) -> None:
        # Each child imports torch: more of them at once than there are cores would only exceed each other's limits.
        super().__init__(min(4, max(2, os.cpu_count() or 2)))
        self._tell, self._one_at_a_time, self._stop = tell, threading.Lock(), threading.Event()

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self.shutdown(cancel_futures=True)

    def ask(self, who: str, question: str, stages: Mapping[str, Stage]) -> Reply:
        """Return what a child says about ``who``; raises :class:`Stopped`."""

        def tell(what: str) -> None:
            with self._one_at_a_time:
                self._tell(who, what)

        reply = ask(question, stages, tell, stop=self._stop)
        tell("")
        return reply
