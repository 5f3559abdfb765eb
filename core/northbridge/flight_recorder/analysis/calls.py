"""The records of all ranks of one run, in the form for the judgement."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from northbridge.flight_recorder.records import Frame
from northbridge.processes.endings import State

How = Literal["waiting", "finished", "failed", "over", "unknown"]

_LIBRARIES = frozenset(
    {"torch", "lightning", "pytorch_lightning", "lightning_fabric", "northbridge", *sys.stdlib_module_names}
)
"""Packages whose frames do not show where a user's code made a call."""


@dataclass(frozen=True)
class Group:
    """A process group. Two groups with one name differ in their lives and their ranks."""

    name: str
    ranks: tuple[int, ...] = field(hash=False)  # there may be many
    life: int = 1
    description: str = ""

    def __str__(self) -> str:
        about = f"{self.description}, " if self.description not in ("", "undefined") else ""
        return f"group {self.name} ({about}{say_ranks(self.ranks)})"


@dataclass(frozen=True)
class Channel:
    """A counter of a group's calls: one for collectives, one for sends and receives of each peer and tag."""

    direction: Literal["", "send", "receive"] = ""
    peer: int | None = None
    tag: int | None = None

    def __str__(self) -> str:
        return f"{self.direction} {'any' if self.peer is None else self.peer} {self.tag}" if self.direction else ""


@dataclass(frozen=True)
class Call:
    """One call of a rank, the ``number``-th of its channel; times are in seconds since 1970."""

    group: Group
    operation: str
    number: int
    at: float = 0.0
    channel: Channel = Channel()
    root: int | None = None
    tensors: str = ""
    elements: int = 0
    place: str = ""
    thread: str = ""
    how: How = "waiting"
    ended: float | None = None
    why: str = ""

    def __str__(self) -> str:
        return f"#{self.number} {self.operation}" + (f" ({self.tensors})" if self.tensors else "")

    @property
    def where(self) -> str:
        """The text ", at train.py:42 in fit", or an empty one."""
        if not self.place:
            return ""
        behind = {"": "", "autograd": " (from autograd's thread; the main thread was there)"}
        return f", at {self.place}{behind.get(self.thread, f' (in thread {self.thread!r})')}"


@dataclass(frozen=True)
class RankLog:
    """The records of one rank: its calls, oldest first, and its counts for each channel in each group."""

    rank: int
    calls: Sequence[Call] = ()
    counts: Mapping[tuple[Group, str], int] = field(default_factory=dict)
    host: str = ""
    process: int = 0
    state: State = "unknown"
    seen: str = ""
    """The place of its main thread after some seconds without a further call."""
    exited: bool = False
    """True if the process ended by itself."""

    def collectives(self, group: Group) -> list[Call]:
        """Return the collectives that this rank has made in ``group``, oldest first."""
        return [call for call in self.calls if call.group == group and not call.channel.direction]

    def count(self, group: Group, channel: Channel = Channel()) -> int:
        """Return the number of calls of ``channel`` that this rank has made in ``group``."""
        return self.counts.get((group, str(channel)), 0)


@dataclass(frozen=True)
class RecordedRun:
    """The logs of all ranks of one run that have written a file."""

    world_size: int
    logs: Mapping[int, RankLog]
    damages: Sequence[str] = ()
    """Unreadable parts, each with its file."""
    left_out: int = 0
    """Number of files of other runs in the folder."""


def say_ranks(ranks: Sequence[int]) -> str:
    """Return "rank 3", "ranks 0, 2", or "ranks 0-7, 9"."""
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:  # a range without gaps
        return f"ranks {ordered[0]}-{ordered[-1]}"
    rows = [[rank for _, rank in row] for _, row in groupby(enumerate(ordered), lambda each: each[1] - each[0])]
    parts = [f"{row[0]}-{row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows]
    return f"ranks {', '.join(parts)}"


def name_place(frames: Sequence[Frame]) -> str:
    """Return the innermost frame of the user's code, or else of any code, as "train.py:42 in fit"."""
    users = (each for each in frames if not _is_of_library(each.module))
    found = next(users, frames[0] if frames else None)
    if found is None:
        return ""
    here = f"{os.getcwd()}{os.sep}"
    return f"{found.file.removeprefix(here)}:{found.line} in {found.function}"


def _is_of_library(module: str) -> bool:
    top = module.partition(".")[0]
    return top != "__main__" and (top in _LIBRARIES or top.startswith("northbridge_"))
