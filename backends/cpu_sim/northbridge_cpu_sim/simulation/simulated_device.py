"""Properties of a simulated device, and their reading from its ``device.toml``."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import pydantic
from typing_extensions import Self

from northbridge_cpu_sim.collective import Call
from northbridge_cpu_sim.errors import DeviceFileError
from northbridge_cpu_sim.settings import Count, Label, Memory, SimSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

Floating = Literal["float16", "bfloat16", "float32", "float64"]
Integer = Literal["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
Other = Literal[
    "bool", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"
]
Dtype = Literal[Floating, Integer, Other]
Reduction = Literal["sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum"]
Key = Literal["HPU", "XPU"]
Sentence = Annotated[str, pydantic.Field(min_length=1)]
Facts = TypeVar("Facts", bound=pydantic.BaseModel)

_TOP = ("device", "collective")

_ROUNDS_TO: Mapping[str, tuple[str, ...]] = {
    "float64": ("float32", "bfloat16", "float16"),
    "float32": ("bfloat16", "float16"),
    "int64": ("int32", "int16", "int8"),
    "int32": ("int16", "int8"),
}


class _Facts(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class Lacks(_Facts):
    """Unsupported parts of the communication library, each with its error."""

    reductions: Mapping[Reduction, Sentence] = pydantic.Field(
        default={}, description="a table from the names of reductions, such as avg, to sentences"
    )
    dtypes: Mapping[Dtype, Sentence] = pydantic.Field(
        default={}, description="a table from the names of dtypes, such as int64, to sentences"
    )
    calls: Mapping[Call, Sentence | Mapping[Dtype, Sentence]] = pydantic.Field(
        default={},
        description="a table from the names of calls, such as recv_anysource, to sentences, or to tables from the names"
        " of dtypes to sentences",
    )


class Reduces(_Facts):
    """The dtypes that the library reduces itself, and the dtype to which it casts the others."""

    natively: tuple[Dtype, ...] = pydantic.Field(description="a list of names of dtypes, such as float32")
    through: Floating = pydantic.Field(description="one of the floating dtypes that are reduced natively")

    @pydantic.model_validator(mode="after")
    def _travels_natively(self) -> Self:
        if self.through not in self.natively:
            raise ValueError(f"through = {self.through!r} is not in natively {[*self.natively]}")
        return self


class Library(_Facts):
    """The device's communication library."""

    name: str = pydantic.Field(
        pattern=r"^[a-z][a-z0-9_]*$", description="a name of lower-case letters, digits and underscores"
    )
    lacks: Lacks = pydantic.Field(default=Lacks(), description="a table")
    reduces: Reduces | None = pydantic.Field(default=None, description="a table with natively and through")
    deadlines: bool = pydantic.Field(default=True, description="true or false (whether it honours timeout=)")


class SimulatedDevice(_Facts):
    """The properties of a simulated device. Differences by mode or release are made with `model_copy`."""

    type: str = pydantic.Field(
        pattern=r"^[a-z][a-z0-9_]*$", description="torch's name for it, of lower-case letters, digits and underscores"
    )
    key: Key | None = pydantic.Field(
        default=None, description="a dispatch key of torch's own that the simulator knows: HPU or XPU"
    )
    label: Label
    count: Count
    memory: Memory
    one_per_process: bool = pydantic.Field(default=False, description="true or false")
    autograd_threads: bool = pydantic.Field(default=False, description="true or false")
    ordered_streams: bool = pydantic.Field(
        default=False, description="true or false (whether all streams of a device keep the order of the calls)"
    )
    graphs: bool = pydantic.Field(default=True, description="true or false")
    lacks: Mapping[Dtype, Sentence] = pydantic.Field(
        default={}, description="a table from the names of dtypes, such as complex64, to sentences"
    )
    lacks_operations: Mapping[str, Sentence | Mapping[Dtype, Sentence]] = pydantic.Field(
        default={},
        description="a table from the names of torch's operations, such as aten::bmm, to sentences, or to tables from"
        " the names of dtypes to sentences",
    )
    held_as: Mapping[Dtype, Dtype] = pydantic.Field(
        default={}, description="a table from wide dtypes to narrower ones of their kind, such as float64 to float32"
    )
    collective: Library = pydantic.Field(description="a table with the name of a library")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file ``path``. Raises :class:`DeviceFileError`."""
        return _checked(cls, _read_table(path), str(path))

    def checked(self) -> Self:
        """Validate the device again: `model_copy` does not validate. Raises :class:`DeviceFileError`."""
        return _checked(type(self), self.model_dump(), f"the simulated device {self.type!r}")

    def as_set(self) -> Self:
        """Return a copy with the values of the ``NORTHBRIDGE_CPU_SIM_…`` variables that are set."""
        said = SimSettings.read()
        variables = {"count": "devices", "memory": "memory", "label": "name", "autograd_threads": "autograd_threads"}
        return self.model_copy(
            update={fact: getattr(said, name) for fact, name in variables.items() if name in said.model_fields_set}
        )

    @pydantic.model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.key is not None and self.key != self.type.upper():
            raise ValueError(f"key = {self.key!r} is not the key of type = {self.type!r}")
        for wide, narrow in self.held_as.items():
            if narrow not in _ROUNDS_TO.get(wide, ()):
                raise ValueError(f"held_as.{wide} = {narrow!r} is not a narrower dtype of its kind")
            if wide in self.lacks or narrow in self.lacks or narrow in self.held_as:
                raise ValueError(f"held_as.{wide} = {narrow!r}: one is lacking or held as another")
        return self


def _read_table(path: Path) -> dict[str, Any]:
    """Read the tables of the file, with [collective] inside [device]. Raises :class:`DeviceFileError`."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeviceFileError(f"{path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise DeviceFileError(f"{path} is not a device file: it is nested too deeply") from None
    except ValueError as error:  # invalid TOML or UTF-8
        raise DeviceFileError(f"{path} is not a TOML file: {error}") from None
    for name in tables:
        if name not in _TOP:
            raise DeviceFileError(f"{path}: unknown table {name!r}; known: [device], [collective]")
    for name in _TOP:
        if not isinstance(tables.get(name), dict):
            raise DeviceFileError(f"{path}: the table [{name}] is missing")
    return {**tables["device"], "collective": tables["collective"]}


def _checked(facts: type[Facts], table: dict[str, Any], whose: str) -> Facts:
    """Validate ``table`` as ``facts``.

    Raises :class:`DeviceFileError` with its owner ``whose``, the key, the value, and the allowed values.
    """
    try:
        return facts.model_validate(table)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise DeviceFileError(f"{whose}: {_complaint(facts, table, first)}") from None


def _complaint(facts: type[pydantic.BaseModel], table: dict[str, Any], error: Any) -> str:
    path, found = _follow(table, error)
    key = ".".join(path if path[:1] == ["collective"] else ["device", *path])
    owner, description = _owner(facts, path)
    if error["type"] == "value_error" and isinstance(found, dict):  # about several keys that contradict each other
        return f"{key}: {error['ctx']['error']}"
    if error["type"] == "missing":
        return f"{key} is missing: expected {description}"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], owner.model_fields, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(owner.model_fields))}"
        return f"{key} = {found!r} is not a key: {hint}"
    return f"{key} = {found!r} is not {description}"


def _follow(table: dict[str, Any], error: Any) -> tuple[list[str], object]:
    # After the file's keys come pydantic's own words, such as the member of a union that it tried.
    path: list[str] = []
    found: Any = table
    for step in error["loc"]:
        if isinstance(found, dict) and step in found:
            path.append(step)
            found = found[step]
        elif error["type"] == "missing":
            path.append(str(step))
    return path, found


def _owner(facts: type[pydantic.BaseModel], path: list[str]) -> tuple[type[pydantic.BaseModel], str]:
    """Return the model of the last key, and the description of its allowed values."""
    owner, description = facts, "a table"
    inner: type[pydantic.BaseModel] | None = facts
    for step in path:
        if inner is None:
            break
        owner, inner = inner, None
        if step in owner.model_fields:
            field = owner.model_fields[step]
            description = field.description or description
            for kind in (field.annotation, *get_args(field.annotation)):
                if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
                    inner = kind
    return owner, description
