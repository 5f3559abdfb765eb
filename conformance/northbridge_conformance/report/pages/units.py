"""Times and sizes as people write them."""

from __future__ import annotations


def show_seconds(seconds: float) -> str:
    """Return a duration in seconds as text: ``"0.02 s"``, ``"14 s"``, ``"3 min 20 s"``."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def show_memory(size: int) -> str:
    """Return a number of bytes as text in GiB: ``"8.0 GiB"``."""
    return f"{size / 2**30:.1f} GiB"


def show_moment(moment: str) -> str:
    """Return an ISO 8601 time in UTC as text, to the minute: ``"2026-11-24 20:40 UTC"``."""
    return f"{moment[:16].replace('T', ' ')} UTC"
