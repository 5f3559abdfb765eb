"""What a child process and the process that asks it say to each other.

A child answers in stages, each with a time limit of its own: what a driver must answer at once and what may compile for
minutes are told apart.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from typing import Any, NoReturn

from northbridge.processes.endings import kill_session

DONE = "done"
"""The stage in which a child has told everything."""

WORD_BYTES = 32


@dataclass(frozen=True)
class Stage:
    """One thing a child does."""

    doing: str
    """What completes "was killed while …"."""

    limit: float
    """Seconds."""

    patience: str
    """What to do when the limit is over."""


@dataclass(frozen=True)
class Reply:
    """What a child told; where it ended before it had told everything, ``ending`` says how, and ``stage`` in which."""

    facts: dict[str, Any] = field(default_factory=dict)
    ending: str = ""
    stage: str = ""


class Reporter:
    """The child's side: facts go to the parent, and whatever else this process prints does not.

    The parent holds the other end of stdin: where even the parent is killed, this process and what it started end too.
    The first that it writes there is a word that each report begins with: what was printed before has none.
    """

    def __init__(self) -> None:
        self._pipe, self._parent = os.dup(1), os.dup(0)
        self._word = os.read(self._parent, WORD_BYTES)
        os.dup2(2, 1)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        threading.Thread(target=self._end_with_parent, daemon=True).start()

    def _end_with_parent(self) -> None:
        os.read(self._parent, 1)
        kill_session(os.getpid())

    def begin(self, stage: str, **facts: object) -> None:
        """Say which stage begins, and what the one before has found."""
        report = json.dumps({"stage": stage, "facts": facts}).encode()
        os.write(self._pipe, b"\n" + self._word + report + b"\n")

    def end(self, **facts: object) -> NoReturn:
        """Say the last facts, and end this process at once: a vendor's threads may keep it alive for ever."""
        self.begin(DONE, **facts)
        os._exit(0)


def make_word() -> bytes:
    """Return a word that nobody can guess."""
    return os.urandom(WORD_BYTES // 2).hex().encode()


def parse(line: bytes, word: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the stage and the facts of a report, or ``None`` for a line that does not begin with ``word``.

    Others print before a :class:`Reporter` is made: a site hook, or what runs at the end of ``import torch``.
    """
    if not line.startswith(word):
        return None
    report = json.loads(line.removeprefix(word))
    return str(report["stage"]), dict(report["facts"])
