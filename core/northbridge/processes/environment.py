"""What a process and its children are given: variables, around a vendor's import that may write them, and a path."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_words: dict[str, str] = {}  # what this process tells the ranks that it starts


@contextmanager
def keep_environment(names: Iterable[str], *, written: Mapping[str, str | None] | None = None) -> Iterator[None]:
    """Restore the variables ``names`` on exit, whatever was written to them inside.

    For ``Bridge.load``. If the script has already imported the vendor's software, ``written`` says what that import
    writes. A variable that holds just that value, and did not when the process started, gets back its first value. What
    the user set stays.
    """
    before = {name: os.environ.get(name) for name in names}
    for name, value in (written or {}).items():
        if value is not None and before.get(name) == value:
            before[name] = _at_start(name)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = kept


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
def children_listen() -> Iterator[None]:
    """Let the processes that are started inside find every word in their environment; the launchers of ranks do."""
    with keep_environment(_words):
        os.environ.update(_words)
        yield


def python_command(code: str, *arguments: str) -> list[str]:
    """Return the command that runs ``code`` in a Python of its own, with ``arguments`` in ``sys.argv[1:]``.

    ``-P`` would do, but Python 3.10 does not know it; ``-I`` would drop what PYTHONPATH adds.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = {import_path()}; {code}", *arguments]


def import_path() -> list[str]:
    """Return ``sys.path`` as a child gets it: whole paths, without ``""``.

    With ``python -c`` and in a notebook Python itself puts ``""`` there. It is the working directory of the moment,
    where an unknown ``torch.py`` may lie. A folder that is named stays: a script's own, that of
    ``python -m``, and what the user added. This process imports from there, too.
    """
    return [os.path.abspath(each) for each in map(str, sys.path) if each]


def _at_start(name: str) -> str | None:
    # Linux keeps what the environment was before any code of this process ran.
    try:
        lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ.get(name)
    start = os.fsencode(f"{name}=")
    return next((os.fsdecode(line.removeprefix(start)) for line in lines if line.startswith(start)), None)
