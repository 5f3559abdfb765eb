"""What `make setup` lets a Python of .venv do at its start where SHORT_PROCESS is set: as in those that tests start.

Such a process sees neither scipy nor matplotlib, which only some of Lightning's imports look for. And it seldom looks
for garbage, at its end not at all: with torch and Lightning imported that takes a second and a half of four, and the
tests start some thousand. What is not garbage of cycles is given back all the same.

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
