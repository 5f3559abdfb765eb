"""A queue of questions to children, of which a few run at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from northbridge.processes.child import Reply, Stage, ask

if TYPE_CHECKING:
    Tell = Callable[[str, str], None]
    """Called with the subject and the stage of a question; the stage is empty when the answer is there."""


class Queue(ThreadPoolExecutor):
    """Threads that ask children, a few at a time. At the end of this context, the children end too."""

    def __init__(self, tell: Tell) -> None:
        # Each child imports torch: more children than cores would only exceed each other's limits.
        super().__init__(min(4, max(2, os.cpu_count() or 2)))
        self._tell, self._one_at_a_time, self._stop = tell, threading.Lock(), threading.Event()

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self.shutdown(cancel_futures=True)

    def ask(self, who: str, question: str, stages: Mapping[str, Stage]) -> Reply:
        """Let a child answer ``question`` about ``who``. Raises :class:`Stopped`."""

        def tell(what: str) -> None:
            with self._one_at_a_time:
                self._tell(who, what)

        reply = ask(question, stages, tell, stop=self._stop)
        tell("")
        return reply
