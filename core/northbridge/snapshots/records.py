"""The files of snapshots: lines of JSON, which may come from another machine, and may be incomplete or hostile."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pydantic

from northbridge.snapshots.measures import SAMPLE, SKETCH, pack, unpack
from northbridge.untrusted.files import read_file

FORMAT = 1
"""Version of the file format."""

MOST_BYTES = 60 << 20
"""Limit of a file; the reader's is higher."""

_SUFFIX = ".snapshots.jsonl"
_Count = Annotated[int, pydantic.Field(ge=0, lt=1 << 63)]
_Finite = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]


class RecordError(Exception):
    """The records cannot be read, or cannot be compared."""


class _SnapshotsRecord(pydantic.BaseModel):
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, strict=True, str_max_length=2000)


class HeaderRecord(_SnapshotsRecord):
    """The first line of a file."""

    kind: Literal["run"]
    format: _Count
    rank: Annotated[int, pydantic.Field(ge=0, lt=1 << 18)]
    world_size: Annotated[int, pydantic.Field(ge=1, le=1 << 18)]
    torch: str


class StepRecord(_SnapshotsRecord):
    """The start of a step."""

    kind: Literal["step"]
    step: _Count
    device: str
    random: _Count


class Value(_SnapshotsRecord):
    """The measures of one tensor; only shape and dtype of one that is empty, sparse or nested."""

    kind: Literal["value"]
    shape: list[_Count]
    dtype: str
    bits: str = ""
    norm: _Finite = 0
    largest: Annotated[float, pydantic.Field(allow_inf_nan=False)] = 0
    lost: _Count = 0
    """Number of values that are not finite."""

    sample: str = ""
    sketch: str = ""

    @pydantic.model_validator(mode="after")
    def _has_its_numbers(self) -> Value:
        if self.bits:
            _ = unpack(self.sample, SAMPLE), unpack(self.sketch, SKETCH)
        return self

    @cached_property
    def samples(self) -> tuple[float, ...]:
        return unpack(self.sample, SAMPLE)

    @cached_property
    def sums(self) -> tuple[float, ...]:
        return unpack(self.sketch, SKETCH)

    def scaled(self, factor: float) -> Value:
        """Return the measures of the tensor times ``factor``, a power of two; its bits are unknown."""
        sample, sketch = (pack([each * factor for each in numbers]) for numbers in (self.samples, self.sums))
        changed = {"norm": self.norm * factor, "largest": self.largest * factor, "bits": "scaled" if self.bits else ""}
        return Value.model_construct(**{**self.model_dump(), **changed, "sample": sample, "sketch": sketch})

    @property
    def size(self) -> float:
        size = 1.0
        for each in self.shape:
            size *= each
        return size


class ModuleCallRecord(_SnapshotsRecord):
    """One call of a module; ``number`` counts calls as they start, and ``inside`` is the call around it."""

    kind: Literal["call"]
    path: str
    call: _Count
    number: _Count
    inside: Annotated[int, pydantic.Field(ge=-1)]
    of: str
    training: bool
    drops: bool
    drew: bool
    random: _Count
    autocast: str
    inputs: list[_Count]
    outputs: list[_Count]


class FlowRecord(_SnapshotsRecord):
    """The gradient that reached the tensor with the measures ``of``."""

    kind: Literal["flow"]
    of: _Count
    value: _Count


class NamedRecord(_SnapshotsRecord):
    """A tensor of the batch, a parameter or buffer before the step, its gradient, or its update."""

    kind: Literal["batch", "weight", "gradient", "update"]
    name: str
    value: _Count


class StepEndRecord(_SnapshotsRecord):
    """The end of a step; without it, the process died in its midst."""

    kind: Literal["end"]
    left_out: bool


Record = HeaderRecord | StepRecord | Value | ModuleCallRecord | FlowRecord | NamedRecord | StepEndRecord
_reader: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(Annotated[Record, pydantic.Field(discriminator="kind")])


@dataclass
class Step:
    """What one rank has recorded of one step."""

    step: int
    device: str
    random: int
    """Fingerprint of the random state at the start; each call has one, too."""

    values: list[Value] = field(default_factory=list)
    calls: dict[tuple[str, int], ModuleCallRecord] = field(default_factory=dict)
    flows: dict[int, int] = field(default_factory=dict)
    """The gradients of values, in the order of the backward pass."""

    named: dict[str, dict[str, Value]] = field(default_factory=lambda: defaultdict(dict))
    left_out: bool = False
    """True if the step had more tensors than are recorded."""

    def add(self, record: Record) -> None:
        """Add a line. Raises ``ValueError`` if it names a value that does not stand before it."""
        if isinstance(record, Value):
            self.values.append(record)
        elif isinstance(record, ModuleCallRecord):
            self._check(*record.inputs, *record.outputs)
            if record.inside >= record.number:
                raise ValueError("it is inside a later call")
            self.calls[record.path, record.call] = record
        elif isinstance(record, FlowRecord):
            self._check(record.of, record.value)
            self.flows.setdefault(record.of, record.value)
        elif isinstance(record, NamedRecord):
            self._check(record.value)
            self.named[record.kind].setdefault(record.name, self.values[record.value])

    def strip(self, prefix: str) -> None:
        """Remove ``prefix``, which ends with a dot, from the names of modules and parameters."""
        calls = [each.model_copy(update={"path": each.path.removeprefix(prefix)}) for each in self.calls.values()]
        outer = prefix.rstrip(".")
        paths = {outer: "", "": "(outer)"}
        self.calls = {}
        for each in calls:
            named = each.model_copy(update={"path": paths.get(each.path, each.path)})
            self.calls[named.path, named.call] = named
        for kind, values in self.named.items():
            self.named[kind] = {name.removeprefix(prefix): value for name, value in values.items()}

    def _check(self, *numbers: int) -> None:
        if any(number >= len(self.values) for number in numbers):
            raise ValueError("it names a value that is not there")


@dataclass
class SnapshotsRun:
    """The readable records of a run's ranks."""

    folder: Path
    world_size: int
    ranks: dict[int, dict[int, Step]]
    damages: list[str]


def name_file(rank: int) -> str:
    """Return the name of a rank's file."""
    return f"rank-{rank}{_SUFFIX}"


def read_run(folder: Path) -> SnapshotsRun:
    """Read the files of all ranks in ``folder``. Raises :class:`RecordError`."""
    try:
        paths = sorted(each for each in folder.iterdir() if each.name.endswith(_SUFFIX))
    except OSError as error:
        raise RecordError(f"{folder}: {error.strerror}. Fix: name the folder of Snapshots") from None
    if not paths:
        raise RecordError(f"{folder} has no {_SUFFIX} files. Fix: train with Snapshots({str(folder)!r}, …)")
    run = SnapshotsRun(folder, 0, {}, [])
    for path in paths:
        about, steps = _read(path, run.damages)
        if about is not None and steps:
            if about.rank in run.ranks or run.world_size not in (0, about.world_size):
                raise RecordError(f"{folder} has files of several runs. Fix: a folder for each")
            run.world_size = about.world_size
            run.ranks[about.rank] = steps
    if not run.ranks:
        raise RecordError("; ".join(run.damages) or f"{folder} has no whole step. Fix: wait for its first step's end")
    return run


def _read(path: Path, damages: list[str]) -> tuple[HeaderRecord | None, dict[int, Step]]:
    about: HeaderRecord | None = None
    steps: dict[int, Step] = {}
    step: Step | None = None
    try:
        *lines, _torn = read_file(path).split(b"\n")
    except OSError as error:
        damages.append(f"{path} cannot be read: {error.strerror or error}")
        return None, {}
    for number, line in enumerate(lines, start=1):
        try:
            record = _reader.validate_json(line)
            if about is None:
                if not isinstance(record, HeaderRecord) or record.format != FORMAT:
                    damages.append(f"{path} was not written by this version of Snapshots: it is left out")
                    return None, {}
                about = record
            elif isinstance(record, StepRecord):
                step = Step(record.step, record.device, record.random)
            elif step is not None and isinstance(record, StepEndRecord):
                step.left_out = record.left_out
                steps[step.step], step = step, None
            elif step is not None:
                step.add(record)
        except ValueError:  # pydantic's too
            damages.append(f"{path} is damaged in line {number}: only the steps before it are used")
            break
    return about, steps
