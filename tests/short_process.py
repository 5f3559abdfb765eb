"""What `make setup` lets a Python of .venv do at its start where SHORT_PROCESS is set: as in those that tests start.

Such a process sees neither scipy nor matplotlib, which only some of Lightning's imports look for. And it does not look
for garbage when it ends: with torch and Lightning imported that takes a second, and the tests start some thousand. The
memory is given back all the same, as is what is not garbage of cycles.

What becomes of cycles at the interpreter's end is seen where processes end as a user's do: in the tests of examples, in
`make demo`, and in the forks of a process, which look for the garbage that they have made themselves.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

_started = os.getpid()


def _leave_the_garbage() -> None:
    if os.getpid() == _started:
        gc.freeze()


science = os.path.join(sys.prefix, "science")
if science in sys.path:
    sys.path.remove(science)
atexit.register(_leave_the_garbage)
