"""Records in the files of the flight recorder, one on each line."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import pydantic
from typing_extensions import Self

FORMAT = 1
"""Version of the file format."""


_LARGEST_WORLD = 1 << 18
_Count = Annotated[int, pydantic.Field(ge=0, lt=1 << 63)]
_Number = Annotated[int, pydantic.Field(ge=-(1 << 63), lt=1 << 63)]
_Rank = Annotated[int, pydantic.Field(ge=0, lt=_LARGEST_WORLD)]
_Time = Annotated[float, pydantic.Field(ge=0, lt=1e12)]


class _Record(pydantic.BaseModel):
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, strict=True, str_max_length=10_000)


class RankRecord(_Record):
    """The first line of a file: its rank and process. Times are seconds since 1970, by the clock of the rank's host."""

    kind: Literal["rank"]
    format: _Number
    rank: _Rank
    world_size: Annotated[int, pydantic.Field(ge=1, le=_LARGEST_WORLD)]
    host: str
    process: _Count
    process_ticks: _Count | None
    machine: str
    started: _Time
    meeting: str
    restart: str
    run: str
    program: str

    @pydantic.model_validator(mode="after")
    def _is_of_its_world(self) -> Self:
        if self.rank >= self.world_size:
            raise ValueError(f"there is no rank {self.rank} of {self.world_size}")
        return self


class RunRecord(_Record):
    """The name of the run, on which all its ranks agree."""

    kind: Literal["run"]
    run: str


class GroupRecord(_Record):
    """A process group, and its calls of each channel at the time of the line."""

    kind: Literal["group"]
    group: str
    name: str
    life: _Count
    ranks: Annotated[list[_Rank], pydantic.Field(min_length=1)] | None
    counts: dict[str, _Count]
    description: str
    library: str


class Frame(NamedTuple):
    """One Python frame of a stack."""

    module: str
    file: str
    line: _Number
    function: str


class PlaceRecord(_Record):
    """A stack, innermost frame first; ``thread`` is empty for the main thread."""

    kind: Literal["place"]
    place: _Count
    thread: str
    frames: list[Frame]


class CallRecord(_Record):
    """One call: the ``number``-th of its channel in its group."""

    kind: Literal["call"]
    call: _Count
    group: str
    operation: str
    number: _Count
    at: _Time
    place: _Count
    direction: Literal["send", "receive"] | None = None
    peer: _Number | None = None
    tag: _Number | None = None
    tensors: list[tuple[str, list[_Number]]] = []
    elements: _Count = 0
    more: _Count = 0


class EndRecord(_Record):
    """The end of a call; ``over`` if the library does not say whether it failed."""

    kind: Literal["end"]
    call: _Count
    at: _Time
    how: Literal["finished", "failed", "over", "unknown"]
    why: str = ""


class IdleRecord(_Record):
    """The place of the main thread after some seconds without a call."""

    kind: Literal["idle"]
    at: _Time
    place: _Count


class ExitRecord(_Record):
    """The process ended by itself."""

    kind: Literal["exit"]
    at: _Time


Record = RankRecord | RunRecord | GroupRecord | PlaceRecord | CallRecord | EndRecord | IdleRecord | ExitRecord

record_reader: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(
    Annotated[Record, pydantic.Field(discriminator="kind")]
)


SUFFIX = ".flight.jsonl"

_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would create an encoder for each line


class Segments:
    """Lines of JSON, written at once; when one file is full, the other is started again.

    When :meth:`write` returns, the system has the line: neither SIGKILL nor SIGSTOP loses it.
    """

    def __init__(self, folder: Path, *, rank: int, host: str, process: int, started: float) -> None:
        host = re.sub(r"[^A-Za-z0-9_-]", "_", host)
        # With the time: in containers, hosts and processes have the same names after a restart.
        stem = f"rank-{rank}.{host}.{process}.{int(started * 1000)}"
        self._paths = [folder / f"{stem}.{turn}{SUFFIX}" for turn in (0, 1)]
        self._turn = 1
        self._file = -1

    def turn_over(self) -> None:
        """Start the other file again. Raises ``OSError``."""
        self.close()
        self._turn = 1 - self._turn
        # A new file each time: in a shared folder, the path may be a link or another user's file.
        with suppress(FileNotFoundError):
            self._paths[self._turn].unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = os.open(self._paths[self._turn], flags, 0o644)

    def write(self, *records: dict[str, object]) -> None:
        """Write each record as a line. Raises ``OSError``."""
        data = "".join(f"{_encode(each)}\n" for each in records).encode()
        written = os.write(self._file, data)
        if written < len(data):  # the disk is full: writing the rest raises the error
            os.write(self._file, data[written:])

    def close(self) -> None:
        """Close the file if it is open."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
            self._file = -1
