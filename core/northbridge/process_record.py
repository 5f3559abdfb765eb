"""What Northbridge did quietly in this process, and why.

Whatever is guessed rather than asked for (a namespace registered, a plugin passed over, the choice of ``auto``) prints
nothing; it leaves an entry here and a line on the logger ``northbridge``. Standard library only: the autoload writes
here in the middle of ``import torch``.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass

logger: logging.Logger = logging.getLogger("northbridge")


class _Clean(logging.Filter):
    """Clean each line of the log: much of it quotes what came from outside."""

    def filter(self, record: logging.LogRecord) -> bool:
        from northbridge.untrusted.text import clean  # `import torch` needs it only where a line is said

        said = record.getMessage()
        if clean(said) != said:
            record.msg, record.args = clean(said), ()
        return True


logger.addFilter(_Clean())


@dataclass(frozen=True)
class Entry:
    """One recorded event: its subject, what happened (``outcome``) and why (``reason``)."""

    subject: str
    outcome: str
    reason: str

    def as_dict(self) -> dict[str, str]:
        """Return the entry as plain strings, for JSON."""
        return asdict(self)


_entries: list[Entry] = []


def record() -> tuple[Entry, ...]:
    """Return the events recorded in this process so far, oldest first."""
    return tuple(_entries)


def note(subject: str, outcome: str, reason: str, *, problem: bool = False) -> None:
    """Record one thing; the same thing said again is recorded once.

    ``problem`` sends the line to the log as INFO, for those who listen; the rest goes as DEBUG. Neither prints anything
    unless the user has set up logging.
    """
    entry = Entry(subject, outcome, reason)
    if entry in _entries:
        return
    _entries.append(entry)
    logger.log(logging.INFO if problem else logging.DEBUG, "%s: %s: %s", subject, outcome, reason)
