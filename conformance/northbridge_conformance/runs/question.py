"""Ask a separate process about a plugin, so that a crash or hang does not reach this one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from northbridge.processes.child import killed_at_end
from northbridge.processes.endings import describe_exit
from northbridge.processes.environment import import_path
from northbridge.processes.question import ANSWERS
from northbridge_conformance.runs.processes import Process, environ_of_runs, start
from northbridge_conformance.runs.scenario import HungError

LIMIT_S = 150.0
"""The limit for an answer; the detection of devices ends within 85 of these seconds."""

ANSWER = str(Path(__file__).with_name("answer.py"))
"""The program of the process; its arguments are those of its :func:`main`."""

_GRACE_S = 5.0


@dataclass(frozen=True)
class Answer:
    """The answer of the process, and its output."""

    facts: dict[str, Any]
    said: str


class NoAnswerError(AssertionError):
    """The process ended without an answer."""


_Key = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]
_answers: dict[_Key, Answer | AssertionError | HungError] = {}


def ask(
    question: str,
    *arguments: str,
    environ: Mapping[str, str] = MappingProxyType({}),
    user: Mapping[str, str] = MappingProxyType({}),
) -> Answer:
    """Return the result of a function of ``questions``, named ``file:function``; it is cached.

    ``environ`` is added to the environment, and then ``user``: the user's variables. Raises :class:`NoAnswerError`
    with the output of the process if it ended without an answer, and :class:`HungError` with the stack of each
    thread if it exceeded the limit, or with Northbridge's error if the detection of devices exceeded its own.
    """
    variables = {**environ, **user}
    key = (question, arguments, tuple(sorted(variables.items())))
    if key not in _answers:
        try:
            _answers[key] = ask_again(question, *arguments, environ=variables)
        except (AssertionError, HungError) as error:
            _answers[key] = error
    answer = _answers[key]
    if not isinstance(answer, Answer):
        raise answer.with_traceback(None)  # as in run()
    return answer


def ask_again(
    question: str,
    *arguments: str,
    environ: Mapping[str, str] = MappingProxyType({}),
    limit_s: float | None = None,
) -> Answer:
    """Return the answer as :func:`ask` does, but always from a new process: for measurements.

    ``limit_s`` is the limit for the answer; None means :data:`LIMIT_S`.
    """
    inherited = environ_of_runs()
    inherited.pop(ANSWERS, None)  # the answers of another process must not be reused
    path = os.pathsep.join(import_path())
    with tempfile.TemporaryDirectory(prefix="northbridge-question-") as name:
        folder = Path(name)
        reply, said = folder / "reply.json", folder / "said.txt"
        file, _, function = question.partition(":")
        asked = str(Path(ANSWER).with_name("questions") / f"{file}.py")
        command = [ANSWER, path, asked, function, str(reply), *arguments]
        with said.open("wb") as output:
            process = start(command, {**inherited, **environ}, folder, output)
        code = _wait(process, question, said, LIMIT_S if limit_s is None else limit_s)
        if not reply.exists():
            raise NoAnswerError(f"the process for {question} {describe_exit(code)}:\n{_end_of(said)}")
        facts = json.loads(reply.read_text())
        if "timed out" in facts:
            raise HungError(f"{question}: {facts['timed out']}")
        return Answer(facts, said.read_text(errors="replace"))


def _wait(process: Process, question: str, said: Path, limit_s: float) -> int:
    with killed_at_end(process):
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.kill(process.pid, signal.SIGABRT)
                process.wait(_GRACE_S)
            raise HungError(f"{question} did not end within {limit_s:g} s:\n{_end_of(said)}") from None


def _end_of(said: Path) -> str:
    return said.read_text(errors="replace")[-12000:]
