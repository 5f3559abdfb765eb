"""What this process tells the ranks that it starts, in variables that stand in its environment just then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from northbridge.processes.environment import keep_environment

_words: dict[str, str] = {}


def hand_down(variable: str, word: str) -> None:
    """Keep ``word`` for this process, and for the ranks that it starts."""
    _words[variable] = word


def handed_down(variable: str) -> str | None:
    """Return what this process keeps under ``variable``, or else was given by the one that started it."""
    return _words.get(variable, os.environ.get(variable))


def forget(variable: str) -> None:
    """Keep nothing more under ``variable``, neither of this process nor of the one that started it."""
    _words.pop(variable, None)
    os.environ.pop(variable, None)


@contextmanager
def heirs_listen() -> Iterator[None]:
    """Let the processes that are started inside find every word in their environment; the launchers of ranks do."""
    with keep_environment(_words):
        os.environ.update(_words)
        yield
