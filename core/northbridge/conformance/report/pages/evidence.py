"""What tests said, cut to what is worth reading."""

from __future__ import annotations

SHOWN_LINES = 14
"""How much evidence stands open on a page; more is folded."""

_SHOWN_CHARACTERS = 1400


def is_long(text: str) -> bool:
    """Whether ``text`` is too long to stand open on a page."""
    return text.count("\n") >= SHOWN_LINES or len(text) > _SHOWN_CHARACTERS


def choose_excerpt(text: str) -> str:
    """Return the lines that say most: those that pytest marks with ``E``, or else the last; at most eight."""
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("E ")][:8] or lines[-8:]
    return "\n".join(f"{line[:240]}…" if len(line) > 240 else line for line in telling)
