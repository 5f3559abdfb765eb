"""A question about a backend to a child process, so that a crash or hang does not reach this process.

A driver can crash the process that queries it, or never answer, and so can a plugin on import. So a child gets the
question, with a time limit. On a busy machine a child may get too little CPU time to answer: it is then asked once
more. The answer is kept, and passed to the ranks that this process starts; a failure is not kept.
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
LITTLE_CPU_S = 5.0
"""A child that has used less CPU time, in seconds, may have been kept from its work by other processes."""

SECOND_TRY = 3.0
"""The limit of the second try, as a multiple of the first limit."""

LIMIT_EXCEEDED = "took longer than"
PATIENCE = "try when this machine is less busy, check the driver, raise NORTHBRIDGE_DETECT_TIMEOUT"
"""Advice if a limit is exceeded."""


class DetectedDevices(TypedDict):
    """Answer of a child."""

    devices: int
    simulated: NotRequired[bool]
    auto: NotRequired[bool]
    missing: NotRequired[str]  # the message that its software is not installed
    error: NotRequired[str]
    timed_out: NotRequired[bool]  # the error is that a limit was exceeded


def longest(limit: float) -> float:
    """Return the seconds within which a question with this ``limit`` has ended, its second try included."""
    return (1.25 + SECOND_TRY) * limit


def describe_timeout(*limits: float, name: str) -> str:
    """Return the end of the message that backend ``name`` exceeded the limit, or those of two tries."""
    spent = ", and in a second try than ".join(f"{limit:g} s" for limit in limits)
    return f"{LIMIT_EXCEEDED} {spent}. Fix: {PATIENCE}, or set NORTHBRIDGE_DISABLE={name}"


def ask(
    name: str,
    answer: Callable[[str], DetectedDevices],
    *,
    who: Callable[[str], str],
    key: str,
    limit: float,
    again: bool = True,
) -> DetectedDevices:
    """Return the result of ``answer(name)`` in a child process; answered once per process tree and ``key``.

    ``answer`` is a function of a module. ``limit`` is in seconds. If a child exceeds it with little CPU time, ``again``
    allows a second try with a longer limit. Messages call the backend ``who(name)``, which is called only for an error,
    because it may read the metadata of every installed package. Raises :class:`DetectionError` if the child crashes,
    reports an error, or exceeds the limit; a repeated call asks again.
    """
    known = _answers().get(key)
    if known is None:
        known = _ask_child(name, answer, who, limit, again=again)
        if "error" in known:
            raise DetectionError(known["error"], backend=name, timed_out=known.get("timed_out", False))
        remember(key, known)
    return known


def remember(key: str, found: DetectedDevices) -> None:
    """Keep an answer for this process, and for the processes that it starts."""
    hand_down(ANSWERS, json.dumps({**_answers(), key: found}))


def _answers() -> dict[str, DetectedDevices]:
    known: dict[str, DetectedDevices] = json.loads(handed_down(ANSWERS) or "{}")
    return known


def _ask_child(
    name: str, answer: Callable[[str], DetectedDevices], who: Callable[[str], str], limit: float, *, again: bool = True
) -> DetectedDevices:
    question = f"from {__name__} import reply; reply({answer.__module__!r}, {answer.__name__!r}, {name!r})"
    limits = [limit]
    while True:
        try:
            told = child.ask(question, {}, start=child.Stage("answering", limits[-1], ""), grace_s=0.0)
        except OSError as error:  # a program that embeds Python may not have an executable
            return _fail(who(name), f"did not start: {error}; {sys.executable!r} may not be a Python")
        if not told.ending:
            return cast(DetectedDevices, told.facts)
        if told.exit_code is not None:
            return _fail(
                who(name),
                f"{describe_exit(told.exit_code)} ({told.last_words or 'no output'}). Fix: match"
                f" the driver to this torch, or set NORTHBRIDGE_DISABLE={name}",
            )
        if not again or len(limits) > 1 or told.cpu_s >= LITTLE_CPU_S:
            return {**_fail(who(name), describe_timeout(*limits, name=name)), "timed_out": True}
        limits.append(SECOND_TRY * limit)


def _fail(who: str, happened: str) -> DetectedDevices:
    return {"devices": 0, "error": f"{who}: the process that asked for its devices {happened}"}


def reply(module: str, function: str, name: str) -> None:
    """Report the result of ``function`` in ``module`` from this process, the child, and end the process."""
    report = child.Reporter()
    try:
        found = getattr(import_module(module), function)(name)
    except NorthbridgeError as error:
        found = {"devices": 0, "error": str(error), "timed_out": error.timed_out}
    report.end(**found)
