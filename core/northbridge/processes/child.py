"""A child process that can neither crash, hang nor garble the process that asks it."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from northbridge.processes.child_report import DONE, Reply, Stage, make_word, parse
from northbridge.processes.endings import describe_exit, kill_session
from northbridge.processes.python_start import python_command
from northbridge.untrusted.text import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

    Tell = Callable[[str, str], None]
    """Called with who is being asked, and what; with nothing when the answer is there."""

_START = Stage("starting Python", 60.0, "is this machine very busy?")
_GRACE = 3.0  # seconds for a child that notices the limit itself, and tells it better
_LONGEST_LINE = 2**22


class Queue:
    """Asks children, a few of them at a time."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        # Each child imports torch: more of them at once than there are cores would only exceed each other's limits.
        self._gate = asyncio.Semaphore(min(4, max(2, os.cpu_count() or 2)))

    async def ask(self, who: str, question: str, stages: Mapping[str, Stage]) -> Reply:
        """Return what a child says about ``who``, when its turn has come."""
        async with self._gate:
            reply = await ask(question, stages, lambda what: self._tell(who, what))
            self._tell(who, "")
            return reply


async def ask(question: str, stages: Mapping[str, Stage], tell: Callable[[str], None]) -> Reply:
    """Run the Python code ``question`` in a child process, and return what it says through a :class:`Reporter`.

    ``tell`` is called with each stage's ``doing``. When the limit of a stage is over, and when the caller is cancelled,
    the child and its process group are killed.
    """
    with TemporaryFile() as stderr:
        child = await asyncio.create_subprocess_exec(
            *python_command(question),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        facts: dict[str, Any] = {}
        stage, name, word = _START, "", make_word()
        assert child.stdin is not None
        child.stdin.write(word)
        try:
            while True:
                tell(stage.doing)
                report = await asyncio.wait_for(_next_report(child, word), stage.limit + _GRACE)
                if report is None:
                    await asyncio.wait_for(child.wait(), _GRACE)
                    break
                name, found = report
                facts |= found
                if name == DONE:
                    return Reply(facts)
                stage = stages[name]
        except asyncio.TimeoutError:
            pass  # it hangs, or it is gone and a process that it has left behind holds the pipe: the exit code tells
        finally:
            exit_code = child.returncode
            await _kill(child)
        where = f"while {stage.doing}{_last_words(stderr)}"
        if exit_code is None:
            return Reply(facts, f"did not answer within {stage.limit:g} s {where}; {stage.patience}", name)
        return Reply(facts, f"{describe_exit(exit_code)} {where}; does it fit this torch and this driver?", name)


async def end_all(*asking: asyncio.Future[Any]) -> None:
    """Wait until each of ``asking`` has ended; where one raises, or this is cancelled, cancel the others first.

    Raises what the first of them raised.

    :func:`asyncio.gather` does not wait for the others then. The end of the loop would cancel them once more, while
    they wait for the ends of their children, and Ctrl-C would end in tracebacks of asyncio's.
    """
    try:
        await asyncio.wait(asking, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        others = [each for each in asking if not each.done()]
        for each in others:
            each.cancel()
        if others:
            await asyncio.wait(others)
    for each in asking:
        if not each.cancelled() and (error := each.exception()):
            raise error


async def _next_report(child: asyncio.subprocess.Process, word: bytes) -> tuple[str, dict[str, Any]] | None:
    assert child.stdout is not None
    while line := await child.stdout.readline():
        report = parse(line, word)
        if report is not None:
            return report
    return None


async def _kill(child: asyncio.subprocess.Process) -> None:
    kill_session(child.pid)
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(child.wait(), _GRACE)


def _last_words(stderr: BinaryIO) -> str:
    stderr.seek(0)
    lines = [line for line in stderr.read().decode(errors="replace").splitlines() if line.strip()]
    return f" ({shorten(lines[-1])})" if lines else ""
