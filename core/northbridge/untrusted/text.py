"""Cleaning of text from outside: metadata, files, variables and other processes may contain anything."""

from __future__ import annotations

import re
from typing import Any

LONGEST = 200
"""Limit in characters for quoted text."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
_NEWLINES = re.compile(r"\r\n?|[\x85\u2028\u2029]")
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"  # not allowed in XML
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # reverse the order of neighbouring text
)
# A text as repr() writes it. A word's apostrophe does not begin a quotation: a letter stands before it.
_QUOTED = re.compile(rf"(?<!\w)(['\"])((?:\\.|(?!\1)[^\\]){{{LONGEST + 1},}})\1", re.DOTALL)


def clean(text: str) -> str:
    """Remove terminal colours from ``text``, and write invisible characters as escapes."""
    lines = _NEWLINES.sub("\n", _ANSI.sub("", text))
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", lines)


def clean_values(value: Any) -> Any:
    """Return a value of JSON with each text cleaned as :func:`clean` does, keys too."""
    if isinstance(value, dict):
        return {clean_values(key): clean_values(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_values(each) for each in value]
    return clean(value) if isinstance(value, str) else value


def shorten(text: str) -> str:
    """Return ``text`` on one line, in at most :data:`LONGEST` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def clean_message(text: str) -> str:
    """Clean an error's message as :func:`clean` does, and shorten each text that it quotes."""
    return _QUOTED.sub(lambda found: f"{found[1]}{found[2][: LONGEST - 1]}…{found[1]}", clean(text))
