"""Which ranks died before this one failed: the library that lost their connections cannot say."""

from __future__ import annotations

import sys
import time
from subprocess import Popen
from typing import Any

from northbridge.process_record import logger
from northbridge.processes.endings import describe_exit

_PATIENCE_SECONDS = 1.0  # a process that was killed loses its connections a moment before it has an exit code


def name_dead_ranks(error: BaseException, launcher: Any, rank: int) -> None:
    """Add to ``error`` which of the ranks that Lightning's ``launcher`` has started as scripts have died, and how.

    The DDP strategy calls it on ``rank``, the first of its node, when the Trainer ends by an exception. Where a
    communication library failed, the user reads of a lost connection otherwise, and never who was lost.
    """
    # Not a launcher's that spawns or forks: it has noticed by itself.
    scripts = [each for each in getattr(launcher, "procs", ()) if isinstance(each, Popen)]
    if not isinstance(error, RuntimeError) or not scripts:
        return
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not any(script.poll() for script in scripts) and time.monotonic() < deadline:
        time.sleep(0.02)
    for number, script in enumerate(scripts, start=rank + 1):
        code = script.poll()
        if code:
            above = "" if code < 0 else "; what it says of that stands above"
            _add(error, f"rank {number} (process {script.pid}) {describe_exit(code)}{above}")


def _add(error: BaseException, text: str) -> None:
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        logger.error(text)
