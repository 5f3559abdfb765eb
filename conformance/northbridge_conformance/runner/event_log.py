"""Events of the pytest that runs the suite, a line each, for the process that supervises it.

A line is written before a test begins and after it has ended. So the log names the test in which a process hung or
died.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from northbridge_conformance.verdict import Ending, Figure


class _Line(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)


class Planned(_Line):
    """A test of the requested levels."""

    event: Literal["planned"] = "planned"
    id: str
    chosen: bool
    """True if it is to run, as a part of the suite may be requested."""

    level: str
    topic: str
    title: str
    claims: tuple[str, ...]
    advice: str


class Began(_Line):
    """A test has begun."""

    event: Literal["began"] = "began"
    id: str


class Ended(_Line):
    """A test has ended."""

    event: Literal["ended"] = "ended"
    id: str
    ending: Ending
    seconds: float
    evidence: str = ""
    claims: tuple[str, ...] = ()
    """The claims of the operators that it called, in addition to those that were planned."""

    figures: tuple[Figure, ...] = ()


class Uncollected(_Line):
    """Collection failed, for the reason."""

    event: Literal["refused"] = "refused"
    reason: str


Line = Planned | Began | Ended | Uncollected
_LINES: TypeAdapter[Line] = TypeAdapter(Line)


class EventLog:
    """The log file, for one writer and one reader."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def write(self, line: Line) -> None:
        """Append ``line``, which is in the file when this returns."""
        with self._path.open("a") as file:
            file.write(line.model_dump_json() + "\n")

    def read(self) -> list[Line]:
        """Return the lines written since the last call."""
        if not self._path.exists():
            return []
        with self._path.open() as file:
            file.seek(self._read)
            text = file.read()
        whole, _, _ = text.rpartition("\n")
        if not whole:
            return []
        self._read += len(whole.encode()) + 1
        return [_LINES.validate_json(line) for line in whole.split("\n")]
