"""The files of snapshots: lines of JSON, which may come from another machine, and may be incomplete or hostile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pydantic
from typing_extensions import Self

from northbridge.untrusted.files import read_file

MOST_BYTES = 60 << 20
"""Limit of a file; the reader's is higher."""

# Signed sums of all values are linear: the difference of two sketches has about the norm of the difference of the
# tensors, wherever in the tensors it is. The values of a sample are at fixed places.
SKETCH = 32
SAMPLE = 16
MOST_OF_FLOAT32 = 3.4e38

_SUFFIX = ".snapshots.jsonl"
_DEEPEST = 300
_Count = Annotated[int, pydantic.Field(ge=0, lt=1 << 63)]
_Size = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
_Kind = Annotated[str, pydantic.Field(pattern="^(batch|weight|gradient|update)$")]
_Number = Annotated[float, pydantic.Field(allow_inf_nan=False)]
_Sampled = Annotated[float, pydantic.Field(ge=-1e155, le=1e155)]  # the square of a float64 that has one is finite


class RecordError(Exception):
    """The records cannot be read, or cannot be compared."""


class _SnapshotsRecord(pydantic.BaseModel):
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, strict=True, str_max_length=2000)


class HeaderRecord(_SnapshotsRecord):
    """The first line of a file."""

    format: Literal[2] = 2
    rank: Annotated[int, pydantic.Field(ge=0, lt=1 << 18)]
    world_size: Annotated[int, pydantic.Field(ge=1, le=1 << 18)]


class Value(_SnapshotsRecord):
    """The measures of one tensor; only shape and dtype of one that is empty or nested."""

    shape: list[_Count]
    dtype: str
    bits: str = ""
    norm: _Size = 0
    largest: _Size = 0
    lost: _Count = 0
    """Number of values that are not finite."""

    sample: Annotated[list[_Sampled], pydantic.Field(min_length=SAMPLE, max_length=SAMPLE)] = [0.0] * SAMPLE
    sketch: Annotated[list[_Number], pydantic.Field(min_length=SKETCH, max_length=SKETCH)] = [0.0] * SKETCH

    @property
    def size(self) -> float:
        return math.prod(map(float, self.shape))

    def scaled(self, factor: float) -> Value:
        """Return the measures of the tensor times ``factor``, a power of two; its bits are unknown."""
        changed = {name: [each * factor for each in getattr(self, name)] for name in ("sample", "sketch")}
        sizes = {"norm": self.norm * factor, "largest": self.largest * factor, "bits": "scaled" if self.bits else ""}
        return self.model_copy(update={**changed, **sizes})


class ModuleCallRecord(_SnapshotsRecord):
    """The ``number``-th call of a module in the step; ``inside`` is the call around it, -1 if there is none.

    ``inputs`` and ``outputs`` are the places of the tensors in the step's ``values``.
    """

    path: str
    call: _Count
    number: Annotated[int, pydantic.Field(ge=-1)]
    inside: Annotated[int, pydantic.Field(ge=-1)]
    of: str
    training: bool
    drops: _Number = 0
    """The rate of its dropout."""

    random: _Count = 0
    """Fingerprint of the random states when it begins."""

    drew: bool = False
    autocast: str = ""
    inputs: list[_Count] = []
    outputs: list[_Count] = []


class Step(_SnapshotsRecord):
    """One line: what one rank has recorded of one step.

    The ``calls`` are in the order in which they began. ``flows`` are the gradients of values, in the order of the
    backward pass. ``drew_before`` tells that random numbers were drawn before the first call, and
    ``left_out`` that the step had more tensors than are recorded.
    """

    step: _Count
    device: str
    drew_before: bool
    values: list[Value]
    calls: list[ModuleCallRecord]
    flows: dict[_Count, Value]

    named: Annotated[dict[_Kind, dict[str, Value]], pydantic.Field(min_length=4)]
    """Tensors of the batch, parameters and buffers before the step, gradients, and updates."""

    settings: dict[str, str] = {}
    """The optimizers' settings in their first step of this one, by the name of a parameter that each is of."""

    left_out: bool

    @pydantic.model_validator(mode="after")
    def _is_whole(self) -> Self:
        depths = [0]
        for number, call in enumerate(self.calls):
            if call.number != number or call.inside >= number:
                raise ValueError("calls are not in their order")
            depths.append(depths[call.inside + 1] + 1)
        used = [each for call in self.calls for each in (*call.inputs, *call.outputs)]
        if max(depths) > _DEEPEST or max(used, default=-1) >= len(self.values):
            raise ValueError("a call is too deep, or names a value that is not there")
        return self

    @property
    def by_name(self) -> dict[tuple[str, int], ModuleCallRecord]:
        return {(each.path, each.call): each for each in self.calls}

    def without(self, prefix: str) -> Step:
        """Return the step without ``prefix``, which ends with a dot, in the names of modules and parameters."""
        outer = {prefix.rstrip("."): "", "": "(outer)"}
        paths = [outer.get(each.path, each.path.removeprefix(prefix)) for each in self.calls]
        calls = [each.model_copy(update={"path": path}) for each, path in zip(self.calls, paths, strict=True)]
        named = {
            kind: {name.removeprefix(prefix): value for name, value in values.items()}
            for kind, values in self.named.items()
        }
        return self.model_copy(update={"calls": calls, "named": named})


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
    number = 0
    try:
        *lines, _torn = read_file(path).split(b"\n")
        for line in lines:
            number += 1
            if about is None:
                about = HeaderRecord.model_validate_json(line)
            else:
                step = Step.model_validate_json(line)
                steps[step.step] = step
    except OSError as error:
        damages.append(f"{path} cannot be read: {error.strerror or error}")
    except pydantic.ValidationError:
        if about is None:
            damages.append(f"{path} was not written by this version of Snapshots: it is left out")
        else:
            damages.append(f"{path} is damaged in line {number}: only the steps before it are used")
    return about, steps
