"""What stands in the files of the flight recorder: each line is one of these."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import pydantic

FORMAT = 1
"""The version of what stands in the files."""


class _Record(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, strict=True)


class RankRecord(_Record):
    """The first line of a file: whose it is. Times are seconds since 1970, by the clock of the rank's host."""

    kind: Literal["rank"]
    format: int
    rank: int
    world_size: int
    host: str
    process: int
    process_ticks: int | None
    machine: str
    started: float
    meeting: str
    restart: str
    run: str
    program: str


class RunRecord(_Record):
    """The name that all ranks of a run have given it."""

    kind: Literal["run"]
    run: str


class GroupRecord(_Record):
    """A process group, and how many calls of each channel had been made in it when the line was written."""

    kind: Literal["group"]
    group: str
    name: str
    life: int
    ranks: list[int] | None
    counts: dict[str, int]
    description: str
    library: str


class Frame(NamedTuple):
    """One Python frame of a stack."""

    module: str
    file: str
    line: int
    function: str


class PlaceRecord(_Record):
    """A stack, innermost frame first; ``thread`` is empty for the main one."""

    kind: Literal["place"]
    place: int
    thread: str
    frames: list[Frame]


class CallRecord(_Record):
    """One call: the ``number``-th of its channel in its group."""

    kind: Literal["call"]
    call: int
    group: str
    operation: str
    number: int
    at: float
    place: int
    direction: Literal["send", "receive"] | None = None
    peer: int | None = None
    tag: int | None = None
    tensors: list[tuple[str, list[int]]] = []
    elements: int = 0
    more: int = 0


class EndRecord(_Record):
    """How a call ended; ``over`` where the library does not say whether it failed."""

    kind: Literal["end"]
    call: int
    at: float
    how: Literal["finished", "failed", "over", "unknown"]
    why: str = ""


class IdleRecord(_Record):
    """Where the main thread was when nothing had been called for some seconds."""

    kind: Literal["idle"]
    at: float
    place: int


class ExitRecord(_Record):
    """The process ended by itself."""

    kind: Literal["exit"]
    at: float


Record = RankRecord | RunRecord | GroupRecord | PlaceRecord | CallRecord | EndRecord | IdleRecord | ExitRecord

record_reader: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(
    Annotated[Record, pydantic.Field(discriminator="kind")]
)
