"""Asking a child process about a backend, without being hurt by what is asked.

A driver can crash the process that asks it, or never answer, and so can a plugin that is merely imported. So the
question goes to a child with a time limit; the answer is kept, and handed down to the ranks that this process starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import cast

from typing_extensions import NotRequired, TypedDict

from northbridge.errors import DetectionError, NorthbridgeError
from northbridge.processes import child
from northbridge.processes.endings import describe_exit
from northbridge.processes.environment import hand_down, handed_down

ANSWERS = "_NORTHBRIDGE_DETECTED"
"""The variable that holds what children answered, for this process and those below it: {"acme": {"devices": 8}}."""
SILENCE = (
    "did not answer within {limit:g} s. Fix: check the driver, raise NORTHBRIDGE_DETECT_TIMEOUT, or set"
    " NORTHBRIDGE_DISABLE={name}"
)


class DetectedDevices(TypedDict):
    """Answer of a child."""

    devices: int
    simulated: NotRequired[bool]
    auto: NotRequired[bool]
    missing: NotRequired[str]  # why its software could not be loaded, where that is because it is not installed
    error: NotRequired[str]
    limit: NotRequired[float]  # in seconds, where the error is that it was outlasted


def ask(name: str, answer: Callable[[str], DetectedDevices], *, who: str, key: str, limit: float) -> DetectedDevices:
    """Return what ``answer(name)`` returns in a child process; asked once per process tree and ``key``.

    ``answer`` is a function of a module. ``limit`` is in seconds. Messages call the backend ``who``. Raises
    :class:`DetectionError` if the child crashes, says that something is wrong, or outlasts the limit; and the same when
    asked again, unless the limit has been raised.
    """
    known = _answers().get(key)
    if known is None or known.get("limit", limit) < limit:
        known = _ask_child(name, answer, who, limit)
        remember(key, known)
    if "error" in known:
        raise DetectionError(known["error"], backend=name)
    return known


def remember(key: str, found: DetectedDevices) -> None:
    """Keep an answer for this process, and for those that it starts."""
    hand_down(ANSWERS, json.dumps({**_answers(), key: found}))


def _answers() -> dict[str, DetectedDevices]:
    known: dict[str, DetectedDevices] = json.loads(handed_down(ANSWERS) or "{}")
    return known


def _ask_child(name: str, answer: Callable[[str], DetectedDevices], who: str, limit: float) -> DetectedDevices:
    asker = f"{who}: the process that asked for its devices"
    question = f"from {__name__} import reply; reply({answer.__module__!r}, {answer.__name__!r}, {name!r})"
    try:
        told = child.ask(question, {}, start=child.Stage("answering", limit, ""), grace_s=0.0)
    except OSError as error:  # a program that embeds Python may have none to start
        return {"devices": 0, "error": f"{asker} did not start: {error}; is {sys.executable!r} a Python?"}
    if not told.ending:
        return cast(DetectedDevices, told.facts)
    if told.exit_code is None:
        return {"devices": 0, "error": f"{asker} {SILENCE.format(limit=limit, name=name)}", "limit": limit}
    return {
        "devices": 0,
        "error": f"{asker} {describe_exit(told.exit_code)} ({told.last_words or 'no last words'}). Fix: match"
        f" the driver to this torch, or set NORTHBRIDGE_DISABLE={name}",
    }


def reply(module: str, function: str, name: str) -> None:
    """Answer with what ``function`` of ``module`` finds in this process, the child, and end the process."""
    report = child.Reporter()
    try:
        found = getattr(import_module(module), function)(name)
    except NorthbridgeError as error:
        found = {"devices": 0, "error": str(error)}
    report.end(**found)
