"""Environment of this process and its children: variables, kept around a vendor's import, and the import path."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_words: dict[str, str] = {}  # for the ranks that this process starts


@contextmanager
def keep_environment(names: Iterable[str], *, written: Mapping[str, str | None] | None = None) -> Iterator[None]:
    """Restore the variables ``names`` at the end of the ``with``, even if code inside it has changed them.

    For ``Bridge.load``. If the script, or ``import torch``, has already imported the vendor's software, ``written`` has
    the values that the import sets. A variable with exactly that value, and another at the process's start, gets its
    first value back. The user's own values stay.
    """
    before = {name: os.environ.get(name) for name in names}
    given = environment_at_start() if written else {}
    for name, value in (written or {}).items():
        if value is not None and before.get(name) == value:
            before[name] = given.get(name)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = kept


def environment_at_start() -> dict[str, str]:
    """Return the variables that this process was given before any code of it ran.

    A fork is given its parent's. Only Linux keeps them: elsewhere these are the variables of now.
    """
    try:
        lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return dict(os.environ)
    pairs = (os.fsdecode(line).partition("=") for line in lines if line)
    return {name: value for name, _, value in pairs}


def hand_down(variable: str, word: str) -> None:
    """Keep ``word`` for this process, and for the ranks that it starts."""
    _words[variable] = word


def handed_down(variable: str) -> str | None:
    """Return the word that this process keeps under ``variable``, or else got from its parent."""
    return _words.get(variable, os.environ.get(variable))


def forget(variable: str) -> None:
    """Forget the word under ``variable``, of this process and of its parent."""
    _words.pop(variable, None)
    os.environ.pop(variable, None)


@contextmanager
def children_listen() -> Iterator[None]:
    """Put every word into the environment of processes started inside the ``with``. Launchers of ranks use it."""
    with keep_environment(_words):
        os.environ.update(_words)
        yield


COMPILES = "_NORTHBRIDGE_COMPILES"


def may_compile() -> bool:
    """Return False if this process only looks at what is installed, as ``northbridge list`` does.

    Software that is compiled on first use is then missing: ``Bridge.load()`` raises :class:`SoftwareMissingError`.
    """
    return os.environ.get(COMPILES) != "0"


@contextmanager
def compiling_nothing() -> Iterator[None]:
    """Let :func:`may_compile` return False inside the ``with``, in this process and in those that it starts."""
    with keep_environment([COMPILES]):
        os.environ[COMPILES] = "0"
        yield


def python_command(code: str, *arguments: str) -> list[str]:
    """Return the command that runs ``code`` in a new Python process, with ``arguments`` in ``sys.argv[1:]``.

    Python 3.10 does not have ``-P``, and ``-I`` would drop the folders of PYTHONPATH.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = {import_path()}; {code}", *arguments]


def import_path() -> list[str]:
    """Return ``sys.path`` for a child: absolute paths, without ``""``.

    With ``python -c`` and in a notebook Python itself adds ``""``. It is the current working directory, which may have
    an unknown ``torch.py``. Named folders stay: a script's own, that of ``python -m``, and the user's. This process
    imports from there, too.
    """
    return [os.path.abspath(each) for each in map(str, sys.path) if each]
