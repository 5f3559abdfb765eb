"""Asking several children: what is asked beside others ends before the one that asks goes on."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from northbridge.processes.child import Reply, Stage, Stopped
from northbridge.processes.queue import Queue

_HANGS = "import threading; from northbridge.processes.child import Reporter; Reporter().begin('hang');"
_HANGS += " threading.Event().wait()"


def test_queue_interrupted() -> None:
    begun, asked = threading.Event(), list[Future[Reply]]()

    def tell(_who: str, what: str) -> None:
        if what == "hanging":
            begun.set()

    def interrupted() -> None:
        with Queue(tell) as queue:
            stages = {"hang": Stage("hanging", 60.0, "wait")}
            asked.extend(queue.submit(queue.ask, "acme", _HANGS, stages) for _ in range(9))
            begun.wait(30)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert begun.is_set()
    assert all(each.cancelled() or isinstance(each.exception(), Stopped) for each in asked)


def test_queue_answers_side_by_side() -> None:
    tells = "from northbridge.processes.child import Reporter; Reporter().end(number={})"
    with Queue(lambda _who, _what: None) as queue:
        asked = [queue.submit(queue.ask, str(number), tells.format(number), {}) for number in range(3)]

        assert [each.result() for each in asked] == [Reply({"number": number}) for number in range(3)]
