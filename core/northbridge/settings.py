"""Validated settings from the environment.

A backend's settings are a subclass of :class:`Settings` with a prefix and fields. pydantic-settings could read them
too, but takes 0.4 s to import; this module adds nothing to pydantic's import time.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pydantic
from typing_extensions import Self

from northbridge.errors import SettingsError
from northbridge.untrusted.text import shorten

WRITTEN = "_NORTHBRIDGE_WROTE_"
"""Prefix of a variable's name, for the variable that holds the text written by :meth:`Settings.write`."""


def _indices(text: object) -> object:
    if not isinstance(text, str):
        return text
    numbers = tuple(int(each) for each in text.split(","))
    if len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise ValueError(f"{text!r}: indices must be unique and non-negative")
    return numbers


Indices = Annotated[tuple[int, ...], pydantic.BeforeValidator(_indices)]
"""The type of a field that lists unique indices of devices or cards, such as ``0,1,2,3``."""


class Settings(pydantic.BaseModel):
    """Read one group of environment variables: the field ``devices`` from ``<prefix>DEVICES``.

    Each field needs a default and a description of the allowed values, such as "a whole number from 1 to 64". The
    description becomes part of the error for a wrong value.
    """

    # As arguments of the class, they would make mypy without pydantic's plugin refuse subclasses.
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="forbid")

    prefix: ClassVar[str]
    """The prefix of the variables' names, such as ``"NORTHBRIDGE_ACME_"``."""

    strict_prefix: ClassVar[bool] = True
    """True if each variable with the prefix must be a field; False if other programs use the prefix too."""

    near_misses: ClassVar[bool] = True
    """True if a misspelt field is an error although the prefix is not strict."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        for name, field in cls.model_fields.items():
            if field.is_required() or not field.description:
                raise TypeError(f"{cls.__name__}.{name} needs a default and a description")

    @classmethod
    def variable(cls, field: str) -> str:
        """Return the name of the variable that ``field`` is read from."""
        return cls.prefix + field.upper()

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings in ``environ`` (default: ``os.environ``).

        Empty variables count as unset, and so do those that :meth:`write` set. Raises :class:`SettingsError`, which
        names the variable, its value and the allowed values.
        """
        source = os.environ if environ is None else environ
        fields = {cls.variable(field): field for field in cls.model_fields}
        rejects_others = cls.strict_prefix or cls.near_misses
        # os.environ decodes a variable at each access, and a Trainer() reads settings a dozen times.
        names = [name for name in source if name.startswith(cls.prefix)] if rejects_others else fields
        given = {name: text for name in names if (text := source.get(name, "")) and source.get(WRITTEN + name) != text}
        for name, text in given.items():
            if name not in fields and (cls.strict_prefix or cls._nearest(name, cutoff=0.8)):
                raise cls._unknown(name, text)
        try:
            return cls.model_validate({fields[name]: text for name, text in given.items() if name in fields})
        except pydantic.ValidationError as error:
            raise cls._wrong(error, given) from None

    @classmethod
    def write(cls, field: str, text: str) -> None:
        """Set the variable of ``field`` for the vendor's software, in this process and in its children.

        The user did not choose it: :meth:`read` counts the variable as unset while it holds ``text``.
        """
        name = cls.variable(field)
        os.environ[name] = os.environ[WRITTEN + name] = text

    @classmethod
    def _unknown(cls, name: str, text: str) -> SettingsError:
        near = cls._nearest(name)
        hint = (
            f"did you mean {near}?" if near else f"there are {', '.join(map(cls.variable, sorted(cls.model_fields)))}"
        )
        return SettingsError(f"{shorten(name)}={text!r} is not a setting: {hint}", variable=name)

    @classmethod
    @functools.cache  # comparing names is the slowest part of a reading
    def _nearest(cls, name: str, cutoff: float = 0.6) -> str | None:
        # Compared without the prefix, which alone would make any two names similar.
        variables = {field.upper(): cls.variable(field) for field in sorted(cls.model_fields)}
        close = get_close_matches(name.removeprefix(cls.prefix).upper(), variables, n=1, cutoff=cutoff)
        return variables[close[0]] if close else None

    @classmethod
    def _wrong(cls, error: pydantic.ValidationError, given: Mapping[str, str]) -> SettingsError:
        first = error.errors()[0]
        if not first["loc"]:
            # A validator of the whole model does not name a field.
            blamed = sorted(set(given) & set(map(cls.variable, cls.model_fields)))
            shown = ", ".join(f"{name}={given[name]!r}" for name in blamed)
            return SettingsError(f"{shown} is not allowed: {first['msg']}", variable=", ".join(blamed))
        field = str(first["loc"][0])
        name, allowed = cls.variable(field), cls.model_fields[field].description
        text = given[name]
        default = getattr(cls.model_construct(), field)
        if isinstance(default, pydantic.ByteSize):
            default = default.human_readable()
        of_what = f" (default: {default})" if default not in (None, frozenset()) else ""
        return SettingsError(
            f"{name}={text!r} is not {allowed}. Fix: correct or unset it{of_what}",
            variable=name,
        )


class VendorSettings(Settings):
    """Read the vendor's own variables that a run depends on; each field has its variable's name."""

    prefix = ""
    strict_prefix = False
    near_misses = False  # vendors have hundreds, many of them alike


_SWITCHES = frozenset({"true", "false", "yes", "no", "on", "off", "all", "none"})


def _name(text: object) -> object:
    # DISABLE=true must not count as a backend called "true", and so disable nothing.
    if isinstance(text, str) and (not text.isidentifier() or text.lower() in _SWITCHES):
        raise ValueError(f"{text!r} is not the name of a backend")
    return text


def _names(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.strip() == "1":
        return "everything"
    return frozenset(_name(name.strip()) for name in value.split(","))


class CoreSettings(Settings):
    """The core's settings: ``NORTHBRIDGE_DISABLE`` and its siblings."""

    prefix = "NORTHBRIDGE_"
    strict_prefix = False  # NORTHBRIDGE_ACME_… belongs to the backend "acme", even if it is not installed

    disable: Annotated[frozenset[str] | Literal["everything"], pydantic.BeforeValidator(_names)] = pydantic.Field(
        default=frozenset(),
        description="1 (all), or names of backends with commas between",
    )
    """Switches these backends off."""

    simulate: Annotated[str | None, pydantic.BeforeValidator(_name)] = pydantic.Field(
        default=None, description="the name of one simulated backend"
    )
    """Simulates the backend: `auto` chooses it, and stand-ins replace the vendor's software."""

    detect_timeout: float = pydantic.Field(
        default=20.0, gt=0, le=3600, description="a number of seconds above 0 and up to 3600"
    )
    """Limits the time in which a backend counts its devices."""

    flight_recorder: Path | None = pydantic.Field(default=None, description="the path of a folder")
    """Lets each rank record its last collectives there."""

    flight_recorder_calls: int = pydantic.Field(
        default=2000, ge=10, le=1_000_000, description="a whole number from 10 to 1000000"
    )
    """How many calls a rank keeps at least."""

    def disables(self, name: str) -> bool:
        """Return True if ``NORTHBRIDGE_DISABLE`` disables the backend ``name``."""
        return isinstance(self.disable, str) or name in self.disable
