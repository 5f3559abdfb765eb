"""Asking a child process about a backend, without being hurt by what is asked.

A driver can crash the process that asks it, or never answer, and so can a plugin that is merely imported. So the
question goes to a child with a time limit; the answer is kept, and handed down to the ranks that this process starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

from typing_extensions import NotRequired, TypedDict

from northbridge.errors import DetectionError, NorthbridgeError
from northbridge.processes.endings import describe_exit, kill_session
from northbridge.processes.inheritance import hand_down, handed_down
from northbridge.processes.python_start import python_command
from northbridge.untrusted.text import shorten

ANSWERS = "_NORTHBRIDGE_DETECTED"
"""The variable that holds what children answered, for this process and those below it: {"acme": {"devices": 8}}."""
SILENCE = (
    "did not answer within {limit:g} s; is the driver healthy? NORTHBRIDGE_DETECT_TIMEOUT=seconds allows more,"
    " NORTHBRIDGE_DISABLE={name} switches the backend off"
)
_QUESTION = "from {module} import {function}; {function}({name!r})"
_GRACE_SECONDS = 3.0


class Reply(TypedDict):
    """What a child answers."""

    devices: int
    simulated: NotRequired[bool]
    auto: NotRequired[bool]
    missing: NotRequired[str]  # why its software could not be loaded, where that is because it is not installed
    error: NotRequired[str]
    limit: NotRequired[float]  # in seconds, where the error is that it was outlasted


def ask(name: str, answer: Callable[[str], None], *, who: str, key: str, limit: float) -> Reply:
    """Return what a child process says when it calls ``answer(name)``; asked once per process tree and ``key``.

    ``answer`` is a function of a module, and ends with :func:`reply`. ``limit`` is in seconds. Messages call the
    backend ``who``. Raises :class:`DetectionError` if the child crashes, says that something is wrong, or outlasts the
    limit; and the same when asked again, unless the limit has been raised.
    """
    known = remembered(key)
    if known is None or known.get("limit", limit) < limit:
        known = _ask_child(name, answer, who, limit)
        remember(key, known)
    if "error" in known:
        raise DetectionError(known["error"], backend=name)
    return known


def remembered(key: str) -> Reply | None:
    """Return the answer that is kept under ``key``."""
    return _answers().get(key)


def remember(key: str, reply: Reply) -> None:
    """Keep an answer for this process, and for those that it starts."""
    hand_down(ANSWERS, json.dumps({**_answers(), key: reply}))


def _answers() -> dict[str, Reply]:
    known: dict[str, Reply] = json.loads(handed_down(ANSWERS) or "{}")
    return known


def _ask_child(name: str, answer: Callable[[str], None], who: str, limit: float) -> Reply:
    asker = f"{who}: the process that asked for its devices"
    question = _QUESTION.format(module=answer.__module__, function=answer.__name__, name=name)
    # Files and not pipes: a process that the driver leaves behind would hold a pipe open. The answer is written to the
    # child's stdin, which reply() puts aside before any plugin is imported: what a plugin prints cannot reach it.
    with TemporaryFile() as answered, TemporaryFile() as complained:
        try:
            child = subprocess.Popen(
                python_command(question),
                stdin=answered,
                stdout=subprocess.DEVNULL,
                stderr=complained,
                start_new_session=True,
            )
        except OSError as error:  # a program that embeds Python may have none to start
            return {"devices": 0, "error": f"{asker} did not start: {error}; is {sys.executable!r} a Python?"}
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            return {"devices": 0, "error": f"{asker} {SILENCE.format(limit=limit, name=name)}", "limit": limit}
        finally:
            _end(child)
        answered.seek(0)
        if text := answered.read():
            found: Reply = json.loads(text)
            return found
        last = shorten((_lines(complained) or ["no last words"])[-1])
    return {
        "devices": 0,
        "error": f"{asker} {describe_exit(code)} ({last}); does the driver fit this torch? NORTHBRIDGE_DISABLE={name}"
        " switches the backend off",
    }


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the child and of its session; also where Ctrl-C, which it does not see, ends the wait."""
    kill_session(child.pid)
    with suppress(subprocess.TimeoutExpired):  # a driver that hangs in the kernel cannot be killed
        child.wait(_GRACE_SECONDS)


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode(errors="replace").strip().splitlines()


def reply(find: Callable[[], Reply]) -> None:
    """Answer with what ``find`` finds in this process, the child, and end the process."""
    channel = os.dup(0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    try:
        found = find()
    except NorthbridgeError as error:
        found = {"devices": 0, "error": str(error)}
    os.write(channel, json.dumps(found).encode())
    # A vendor's threads may keep the child alive past its answer.
    os._exit(0)
