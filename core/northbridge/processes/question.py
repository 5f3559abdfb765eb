"""A question about a backend to a child process, so that a crash or hang does not reach this process.

A driver can crash the process that queries it, or never answer, and so can a plugin on import. So a child gets the
question, with a time limit. The answer is kept, and passed to the ranks that this process starts.
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
"""The variable with the children's answers, for this process and its children: {"acme": {"devices": 8}}."""
SILENCE = (
    "did not answer within {limit:g} s. Fix: check the driver, raise NORTHBRIDGE_DETECT_TIMEOUT, or set"
    " NORTHBRIDGE_DISABLE={name}"
)


class DetectedDevices(TypedDict):
    """Answer of a child."""

    devices: int
    simulated: NotRequired[bool]
    auto: NotRequired[bool]
    missing: NotRequired[str]  # the message that its software is not installed
    error: NotRequired[str]
    limit: NotRequired[float]  # in seconds, if the error is a timeout


def ask(
    name: str, answer: Callable[[str], DetectedDevices], *, who: Callable[[str], str], key: str, limit: float
) -> DetectedDevices:
    """Return the result of ``answer(name)`` in a child process; asked once per process tree and ``key``.

    ``answer`` is a function of a module. ``limit`` is in seconds. Messages call the backend ``who(name)``, which is
    called only for an error, because it may read the metadata of every installed package. Raises
    :class:`DetectionError` if the child crashes, reports an error, or exceeds the limit. A repeated call raises the
    same error, unless the limit is higher.
    """
    known = _answers().get(key)
    if known is None or known.get("limit", limit) < limit:
        known = _ask_child(name, answer, who, limit)
        remember(key, known)
    if "error" in known:
        raise DetectionError(known["error"], backend=name)
    return known


def remember(key: str, found: DetectedDevices) -> None:
    """Keep an answer for this process, and for the processes that it starts."""
    hand_down(ANSWERS, json.dumps({**_answers(), key: found}))


def _answers() -> dict[str, DetectedDevices]:
    known: dict[str, DetectedDevices] = json.loads(handed_down(ANSWERS) or "{}")
    return known


def _ask_child(
    name: str, answer: Callable[[str], DetectedDevices], who: Callable[[str], str], limit: float
) -> DetectedDevices:
    question = f"from {__name__} import reply; reply({answer.__module__!r}, {answer.__name__!r}, {name!r})"
    try:
        told = child.ask(question, {}, start=child.Stage("answering", limit, ""), grace_s=0.0)
    except OSError as error:  # a program that embeds Python may not have an executable
        return _fail(who(name), f"did not start: {error}; {sys.executable!r} may not be a Python")
    if not told.ending:
        return cast(DetectedDevices, told.facts)
    if told.exit_code is None:
        return {**_fail(who(name), SILENCE.format(limit=limit, name=name)), "limit": limit}
    return _fail(
        who(name),
        f"{describe_exit(told.exit_code)} ({told.last_words or 'no output'}). Fix: match"
        f" the driver to this torch, or set NORTHBRIDGE_DISABLE={name}",
    )


def _fail(who: str, happened: str) -> DetectedDevices:
    return {"devices": 0, "error": f"{who}: the process that asked for its devices {happened}"}


def reply(module: str, function: str, name: str) -> None:
    """Report the result of ``function`` in ``module`` from this process, the child, and end the process."""
    report = child.Reporter()
    try:
        found = getattr(import_module(module), function)(name)
    except NorthbridgeError as error:
        found = {"devices": 0, "error": str(error)}
    report.end(**found)
