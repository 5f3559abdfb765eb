"""Launcher of ranks that run the user's script again, and names of those that died.

A library that loses a connection cannot name the other rank. A rank that dies after the last collective fails no other.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from functools import cache
from subprocess import Popen
from typing import Any

from northbridge.errors import CollectiveError
from northbridge.launch.parent_watch import tell_failure
from northbridge.launch.process_group import END_SECONDS, has_failed
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.process_record import logger
from northbridge.processes.endings import describe_exit
from northbridge.processes.environment import children_listen


class _SubprocessScriptLauncherMixin(_NamespaceMixin):
    """Starts the ranks as scripts, and passes on what this process detected."""

    strategy: Any = None
    """Our strategy, which the ranks run."""

    def launch(self, *args: Any, **kwargs: Any) -> Any:
        """Start the ranks. Raises :class:`ClusterError` if they would never meet."""
        self.strategy.assert_environment()
        return super().launch(*args, **kwargs)

    def _call_children_scripts(self) -> None:
        with children_listen():
            super()._call_children_scripts()
        note_scripts(self, self.strategy.node_rank * self.strategy.num_processes)


_PATIENCE_SECONDS = 1.0  # a process that was killed loses its connections a moment before it has an exit code
_TOGETHER_SECONDS = 0.1  # ranks that are killed together do not end in the same instant

_scripts: dict[int, Popen[Any]] = {}  # by rank


@cache
def end_as_ranks_end() -> None:
    """Let this process fail if a rank that it has started as a script fails, even after the training.

    It ends with that rank's exit code, or with 1 if the rank was killed. Called before Lightning starts any, and after
    :func:`~northbridge.launch.parent_watch.end_with_launcher`, whose part at the end of the process has to come later.
    """
    atexit.register(_end_as_ranks_end)


def note_scripts(launcher: Any, rank: int) -> None:
    """Note the ranks that ``launcher`` has started as scripts from ``rank``, the first of its node."""
    _scripts.update((number, each) for number, each in enumerate(launcher.procs, start=rank + 1))


def _end_as_ranks_end() -> None:
    if not _scripts or has_failed():  # this process's error names them, or it has ended them
        return
    deadline = time.monotonic() + END_SECONDS
    while not any(codes := [each.poll() for each in _scripts.values()]) and None in codes:
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    if any(codes):
        time.sleep(_TOGETHER_SECONDS)
    ends_with = next((code for code in codes if code and code > 0), 1)
    for number, script in _scripts.items():
        code, which = script.poll(), f"rank {number} (process {script.pid})"
        if code:
            logger.error("%s %s; this run ends with exit code %d", which, describe_exit(code), ends_with)
        elif code is None and not any(codes):
            logger.warning("%s still runs after %g s, and is left alone", which, END_SECONDS)
    if any(codes):
        # An error at this point does not change the exit code.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        tell_failure()
        os._exit(ends_with)


def name_dead_ranks(error: BaseException, launcher: Any, rank: int) -> None:
    """Add to ``error`` the dead ranks among those that Lightning's ``launcher`` started as scripts, and their ends.

    The DDP strategy calls it on ``rank``, the first of its node, if the Trainer ends by an exception. The error of a
    communication library speaks only of a lost connection, and does not name the lost rank.
    """
    # Ranks that are spawned or forked are not this process's children: their parent names them.
    scripts = [each for each in getattr(launcher, "procs", ()) if isinstance(each, Popen)]
    if not isinstance(error, (RuntimeError, CollectiveError)) or not scripts:
        return
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not any(script.poll() for script in scripts) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(_TOGETHER_SECONDS)
    for number, script in enumerate(scripts, start=rank + 1):
        code = script.poll()
        if code is not None:
            above = "" if code < 0 else "; its error is printed above" if code else ", before this rank"
            add_note(error, f"rank {number} (process {script.pid}) {describe_exit(code)}{above}")


def add_note(error: BaseException, text: str) -> None:
    """Add ``text`` to ``error``; before Python 3.11, log it."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        logger.error(text)
