"""Reading and validation of a ``device.toml``."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any, TypeVar, get_args

import pydantic

from northbridge_cpu_sim.errors import DeviceFileError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

Facts = TypeVar("Facts", bound=pydantic.BaseModel)

_TOP = ("device", "collective")


def read_table(path: Path) -> dict[str, Any]:
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


def check(facts: type[Facts], table: dict[str, Any], whose: str) -> Facts:
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
