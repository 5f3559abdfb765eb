"""Record of Northbridge's silent decisions in this process, with reasons.

A guess (a namespace registered, a plugin passed over, the choice of ``auto``) prints nothing. It leaves an entry here
and a line on the logger ``northbridge``. Standard library only: the autoload writes here in the middle of ``import
torch``.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass

logger: logging.Logger = logging.getLogger("northbridge")


class _Clean(logging.Filter):
    """Clean each line of the log, because many lines quote text from outside."""

    def filter(self, record: logging.LogRecord) -> bool:
        from northbridge.untrusted.text import clean  # imported only if a line is logged, to keep `import torch` fast

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
    """Record one event; a repeated event is recorded once.

    ``problem`` logs the line as INFO; other lines are DEBUG. Neither prints anything unless the user has set up
    logging.
    """
    entry = Entry(subject, outcome, reason)
    if entry in _entries:
        return
    _entries.append(entry)
    logger.log(logging.INFO if problem else logging.DEBUG, "%s: %s: %s", subject, outcome, reason)
