"""Launchers of ranks: those that run the user's script again, and those that are spawned or forked.

A library that loses a connection cannot name the other rank. A rank that dies after the last collective fails no other.
So the launchers name the ranks that died.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import active_children, get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from subprocess import Popen
from threading import get_ident
from traceback import walk_tb
from types import FrameType
from typing import Any

from northbridge.errors import ArgumentsError, CollectiveError, UnsupportedError
from northbridge.launch.parent_watch import end_with_parent, tell_failure
from northbridge.launch.process_group import END_SECONDS, has_failed, resume
from northbridge.lightning.accelerators.accelerator import held
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.process_record import logger
from northbridge.processes.endings import describe_exit, started_at, state_of, this_machine
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


_ENDING_SECONDS = 1.0  # a process that was killed loses its connections a moment before it has an exit code
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

    The DDP strategy calls it on ``rank``, the first of its node, if the Trainer ends by an exception.
    """
    # Ranks that are spawned or forked are not this process's children: their parent names them.
    scripts = [each for each in getattr(launcher, "procs", ()) if isinstance(each, Popen)]
    if not isinstance(error, (RuntimeError, CollectiveError)) or not scripts:
        return
    deadline = time.monotonic() + _ENDING_SECONDS
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


GRACE_SECONDS = 10.0
"""Time that a rank has to end after SIGTERM, before it is killed."""

PATIENCE_SECONDS = 3.0
"""Time that a failed rank waits for another rank to end first."""


class _MultiProcessingLauncherMixin(_NamespaceMixin):
    """Starts the ranks as child processes, and ends all of them if the launch fails."""

    def launch(self, *args: Any, **kwargs: Any) -> Any:
        """Start the ranks.

        Raises :class:`UnsupportedError` if a process with a chip would be forked, :class:`ClusterError` if the ranks
        would never meet, and :class:`ArgumentsError` if a spawned rank cannot get the model or the Trainer.
        """
        self._strategy.assert_environment()
        if self._start_method == "fork":
            _reject_held_chips()
        self._strategy.announce()  # here, once: each launch starts new ranks
        others = set(active_children())
        try:
            with children_listen(), _noticing_lost_results(self._start_method):
                return super().launch(*args, **kwargs)
        except BaseException as error:
            # Ctrl-C in this process only would leave the ranks training, and this process waiting for them.
            _end([child for child in active_children() if child not in others])
            name_killed_ranks(error, self._strategy.node_rank * self._strategy.num_processes)
            if any(each.f_globals.get("__name__") == "multiprocessing.reduction" for each in _innermost(error)):
                raise ArgumentsError(
                    f"the ranks are spawned, and get what this process pickles, but {error}. Fix: define it at the top"
                    " of a module, leave it out, or run a script with strategy='ddp'"
                ) from error
            raise

    def _wrapping_function(self, *args: Any, **kwargs: Any) -> None:
        try:
            with end_with_parent():
                super()._wrapping_function(*args, **kwargs)
        except KeyboardInterrupt:
            # torch counts it as success, and the first process would wait for results that never come.
            raise SystemExit(130) from None
        except SystemExit as end:
            # SIGTERM, or the user's own exit(): as above.
            raise SystemExit(end.code or 1) from end
        except BaseException as error:
            siblings = _siblings()
            # torch then sends SIGTERM to the other ranks, which does not reach a stopped process.
            resume(siblings)
            if isinstance(error, (RuntimeError, CollectiveError)):
                _let_first_end(siblings)
            raise


class _Results(SimpleQueue[Any]):
    """What rank 0 sends to its parent, which reads it after the ranks have ended."""

    def get(self) -> Any:
        """Return it. Raises ``RuntimeError`` if it is not there: the parent would wait for ever."""
        if self.empty():
            raise RuntimeError(
                "the first rank ended with exit code 0, as by os._exit(0), before its work was done. Fix: let it"
                " return, or raise an error"
            )
        return super().get()


@contextmanager
def _noticing_lost_results(start_method: str) -> Iterator[None]:
    """Let the next queue that this thread makes for ranks be one that notices lost results."""
    context: Any = get_context(start_method)
    thread = get_ident()

    def make() -> Any:
        if get_ident() != thread:
            return type(context).SimpleQueue(context)
        vars(context).pop("SimpleQueue", None)
        return _Results(ctx=context)

    context.SimpleQueue = make
    try:
        yield
    finally:
        vars(context).pop("SimpleQueue", None)


def name_killed_ranks(error: BaseException, rank: int) -> None:
    """Add the killed ranks to ``error``, by which torch's wait for spawned or forked ranks ended.

    The launcher calls it in the parent, whose first process is ``rank``: torch names only the first end that it saw.
    """
    # After another error, torch itself may have killed a rank, if it was still there 30 s after SIGTERM.
    if getattr(error, "signal_name", None) is None:
        return
    # A Fabric's launcher does not keep them, and torch raises the error in a method of their context.
    contexts = (frame.f_locals.get("self") for frame in _innermost(error))
    processes = (each for context in contexts for each in getattr(context, "processes", ()))
    for number, process in enumerate(processes, start=rank):
        if process.exitcode is not None and process.exitcode < 0 and process.exitcode != -signal.SIGTERM:
            add_note(error, f"rank {number} (process {process.pid}) {describe_exit(process.exitcode)}")


def _innermost(error: BaseException) -> list[FrameType]:
    """Return the frame that raised ``error``, if it was raised."""
    return [frame for frame, _ in walk_tb(error.__traceback__)][-1:]


def _siblings() -> list[int]:
    """Return the processes that this rank's parent has started; empty if the system does not tell."""
    parent, found = os.getppid(), []
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(pid) for pid in children.read_text().split()]
    return [pid for pid in found if pid != os.getpid()]


def _let_first_end(siblings: list[int]) -> None:
    """Wait up to :data:`PATIENCE_SECONDS` until one of the processes ``siblings`` ends.

    torch reports the error of the rank that ends first. If another rank failed and closed its connections, this rank's
    library fails too, and would end before the rank with the real error does.
    """
    machine, begun = this_machine(), {pid: started_at(pid) for pid in siblings}
    deadline = time.monotonic() + PATIENCE_SECONDS if machine and siblings else 0.0
    while time.monotonic() < deadline and all(
        state_of(pid, at, machine) in ("running", "stopped") for pid, at in begun.items()
    ):
        time.sleep(0.02)


def _reject_held_chips() -> None:
    for name in held():
        raise UnsupportedError(
            f"this process has already used {name!r}, so ranks cannot be forked from it. Fix: restart"
            " the kernel, or strategy='ddp'",
            capability="fork",
        )


def _end(ranks: list[Any]) -> None:
    for rank in ranks:
        rank.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    try:
        for rank in ranks:
            rank.join(max(0.0, deadline - time.monotonic()))
    finally:  # also if a second Ctrl-C interrupts the wait
        for rank in ranks:
            rank.kill()
            rank.join()
