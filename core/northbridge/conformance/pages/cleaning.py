"""What tests said, made fit to be shown: it may hold whatever a process has printed."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
_NEWLINES = re.compile(r"\r\n?|[\x85\u2028\u2029]")
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"  # no XML may hold these
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # turn the order of what stands around them
)

SHOWN_LINES = 14
"""How much evidence stands open on a page; more is folded."""

_SHOWN_CHARACTERS = 1400


def clean(text: str) -> str:
    """Take the colours of terminals out of ``text``, and write what cannot be seen as an escape."""
    lines = _NEWLINES.sub("\n", _ANSI.sub("", text))
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", lines)


def is_long(text: str) -> bool:
    """Whether ``text`` is too long to stand open on a page."""
    return text.count("\n") >= SHOWN_LINES or len(text) > _SHOWN_CHARACTERS


def choose_excerpt(text: str) -> str:
    """Return the lines that say most: those that pytest marks with ``E``, or else the last; at most eight."""
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("E ")][:8] or lines[-8:]
    return "\n".join(f"{line[:240]}…" if len(line) > 240 else line for line in telling)
