"""Asking for hardware without being hurt by what is asked.

A driver can crash the process that asks it, or never answer. So the question goes to a child process with a time limit;
the answer is kept in the environment, where the ranks that this process starts will find it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import NotRequired, TypedDict

from northbridge.discovery import describe, detect, get, is_declared, load
from northbridge.ending import describe_exit
from northbridge.errors import DetectionError, NorthbridgeError, SoftwareMissingError
from northbridge.plugin import tell
from northbridge.settings import CoreSettings

if TYPE_CHECKING:
    from northbridge.backend import Backend

ANSWERS = "_NORTHBRIDGE_DETECTED"
"""The variable that holds what children answered, for this process and those below it: {"acme": {"devices": 8}}."""
_QUESTION = "import sys; sys.path[:] = {path}; from northbridge.probe import {answer}; {answer}({name!r})"
_MARK = "northbridge found "  # what the vendor's software prints comes before it
_SILENCE = (
    "did not answer within {limit:g} s; is the driver healthy? NORTHBRIDGE_DETECT_TIMEOUT=seconds allows more,"
    " NORTHBRIDGE_DISABLE={name} switches the backend off"
)

_hanging: dict[str, threading.Thread] = {}  # or done by now


@dataclass(frozen=True)
class Candidate:
    """What ``auto`` has to know of a backend; the devices are not counted where it could not be chosen anyway."""

    devices: int
    simulated: bool
    auto: bool


class _Reply(TypedDict):
    devices: int
    simulated: NotRequired[bool]
    auto: NotRequired[bool]
    missing: NotRequired[str]  # why its software could not be loaded, where that is because it is not installed
    error: NotRequired[str]
    limit: NotRequired[float]  # in seconds, where the error is that it was outlasted


def count_within_limit(backend: Backend) -> int:
    """Return ``backend.bridge.detect()``, or raise :class:`DetectionError` when it raises or outlasts the limit.

    A vendor's own ``detect()`` runs in this process and must not hold up ``Trainer()``, so a thread waits for it. One
    that hangs is not asked again while it does.
    """
    name, limit = backend.name, CoreSettings.read().detect_timeout
    outcome: list[int | BaseException] = []

    def ask() -> None:
        try:
            outcome.append(backend.bridge.detect())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            outcome.append(error)

    if name not in _hanging or not _hanging[name].is_alive():
        thread = threading.Thread(target=ask, name=f"detect {name}", daemon=True)
        thread.start()
        thread.join(limit + 1.0)
        _hanging[name] = thread
    if not outcome:
        raise DetectionError(f"{describe(name)}: its detect() {_SILENCE.format(limit=limit, name=name)}", backend=name)
    (found,) = outcome
    if isinstance(found, NorthbridgeError):
        raise found
    if isinstance(found, int) and found >= 0:
        return found
    happened = f"raised {tell(found)}" if isinstance(found, BaseException) else f"returned {found!r}, not a count"
    raise DetectionError(
        f"{describe(name)}: its detect() {happened}; upgrade the plugin, or switch it off with"
        f" NORTHBRIDGE_DISABLE={name}",
        backend=name,
    ) from (found if isinstance(found, BaseException) else None)


def count_in_child(name: str) -> int:
    """Return how many devices a child process sees once it has loaded backend ``name``; asked once per process tree.

    Raises :class:`DetectionError` if the child crashes, cannot load the backend, or outlasts the limit; and the same
    when asked again, unless the limit has been raised.
    """
    return _ask_once(name, key=name, answer=answer.__name__, limit=CoreSettings.read().detect_timeout)["devices"]


def candidate(name: str) -> Candidate:
    """Return what ``auto`` has to know of backend ``name``, importing its plugin in a child process.

    Nobody has asked for the plugin, so that whatever is wrong with it must not reach this process. One that is imported
    already is asked here. Raises what :func:`northbridge.get` raises, or :class:`DetectionError`.
    """
    if is_declared(name):
        return _look(name)
    # The child has a child of its own, which may take the whole of the time that detection has.
    limit = 2 * CoreSettings.read().detect_timeout
    reply = _ask_once(name, key=f"{name} as a candidate", answer=answer_candidate.__name__, limit=limit)
    if reply["devices"] > 0:
        _remember(name, {"devices": reply["devices"]})  # the one that is chosen is asked next
    return Candidate(reply["devices"], simulated=reply.get("simulated", False), auto=reply.get("auto", True))


def _look(name: str) -> Candidate:
    capabilities = get(name).capabilities
    # Whether there are devices decides nothing where auto would not choose them.
    asked = capabilities.auto and not capabilities.simulated
    return Candidate(detect(name) if asked else 0, simulated=capabilities.simulated, auto=capabilities.auto)


def _ask_once(name: str, *, key: str, answer: str, limit: float) -> _Reply:
    reply = _answers().get(key)
    if reply is None or reply.get("limit", limit) < limit:
        reply = _ask_child(name, answer, limit)
        _remember(key, reply)
    if "error" in reply:
        raise DetectionError(reply["error"], backend=name)
    return reply


def missing_software(name: str) -> str | None:
    """Return what a child said of backend ``name`` where its software was not installed."""
    reply = _answers().get(name)
    return reply.get("missing") if reply is not None else None


def _remember(key: str, reply: _Reply) -> None:
    os.environ[ANSWERS] = json.dumps({**_answers(), key: reply})


def _answers() -> dict[str, _Reply]:
    known: dict[str, _Reply] = json.loads(os.environ.get(ANSWERS, "{}"))
    return known


def _ask_child(name: str, answer: str, limit: float) -> _Reply:
    asker = f"{describe(name)}: the process that asked for its devices"
    # The child imports from where this process does, and not from the folder it happens to stand in.
    question = _QUESTION.format(path=[str(each) for each in sys.path], answer=answer, name=name)
    try:
        child = subprocess.run(
            [sys.executable, "-c", question],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"devices": 0, "error": f"{asker} {_SILENCE.format(limit=limit, name=name)}", "limit": limit}
    reply = _read(child.stdout)
    if reply is not None:
        return reply
    last = (child.stderr.strip().splitlines() or ["no last words"])[-1]
    return {
        "devices": 0,
        "error": f"{asker} {describe_exit(child.returncode)} ({last}); does the driver fit this torch?"
        f" NORTHBRIDGE_DISABLE={name} switches the backend off",
    }


def _read(stdout: str) -> _Reply | None:
    last = stdout.strip().rpartition("\n")[2]
    if not last.startswith(_MARK):
        return None
    reply: _Reply = json.loads(last.removeprefix(_MARK))
    return reply


def answer(name: str) -> None:
    """Print how many devices this process, the child, finds: one line of JSON."""
    try:
        reply: _Reply = {"devices": load(name).device.count()}
    except SoftwareMissingError as error:
        reply = {"devices": 0, "missing": str(error)}
    except NorthbridgeError as error:
        reply = {"devices": 0, "error": str(error)}
    _print(reply)


def answer_candidate(name: str) -> None:
    """Print what this process, the child, can tell :func:`candidate`: one line of JSON."""
    try:
        found = _look(name)
        reply: _Reply = {"devices": found.devices, "simulated": found.simulated, "auto": found.auto}
    except NorthbridgeError as error:
        reply = {"devices": 0, "error": str(error)}
    _print(reply)


def _print(reply: _Reply) -> None:
    print(f"\n{_MARK}{json.dumps(reply)}", flush=True)
    # A vendor's threads may keep the child alive past its answer.
    os._exit(0)
