"""Cleaning of text from outside: metadata, files, variables and other processes may hold anything."""

from __future__ import annotations

import re

LONGEST = 200
"""How many characters of what is quoted are worth reading."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
_NEWLINES = re.compile(r"\r\n?|[\x85\u2028\u2029]")
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"  # no XML may hold these
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # turn the order of what stands around them
)
# A text as repr() writes it. The apostrophe of a word is none of its quotes: a letter stands before it.
_QUOTED = re.compile(rf"(?<!\w)(['\"])((?:\\.|(?!\1)[^\\]){{{LONGEST + 1},}})\1", re.DOTALL)


def clean(text: str) -> str:
    """Take the colours of terminals out of ``text``, and write what cannot be seen as an escape."""
    lines = _NEWLINES.sub("\n", _ANSI.sub("", text))
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", lines)


def shorten(text: str) -> str:
    """Return ``text`` on one line, of at most :data:`LONGEST` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def clean_message(text: str) -> str:
    """Do what :func:`clean` does with the message of an error, and shorten each text that it quotes."""
    return _QUOTED.sub(lambda found: f"{found[1]}{found[2][: LONGEST - 1]}…{found[1]}", clean(text))
