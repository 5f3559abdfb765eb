"""The levels of the suite, and how a backend's own tests adopt them.

A file of four classes is all that a backend's tests need::

    from northbridge_conformance.levels import C0, C1, C2, C3

    class TestC0(C0):
        backend = "acme"

    class TestC1(C1):
        backend = "acme"

and so on. Each holds the classes of its level, as classes within it: ``TestC1::TestDevice::test_indexing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, ClassVar, cast

import pytest

from northbridge.capabilities import LEVEL_CLAIMS
from northbridge_conformance import tests
from northbridge_conformance.suite import NamespaceSuite, Runs, Suite, require_devices


@dataclass(frozen=True)
class Level:
    """A set of test classes that a backend passes together."""

    name: str
    title: str
    classes: tuple[type[Suite], ...]
    devices: tuple[int, ...] = ()
    """The device counts that multi-device classes are run with."""

    least_cases: int = 0
    """The number of tests that must run before the level can be granted."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that the backend must make and prove, in addition to those of the levels below."""
        return LEVEL_CLAIMS[self.name]


class Adopted:
    """The tests of a level, for a backend that a subclass names."""

    level: ClassVar[Level]
    backend: ClassVar[str]
    environ: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Variables that are set for the processes of a run."""

    def __init_subclass__(cls) -> None:
        if "backend" in vars(cls):
            for suite in cls.level.classes:
                setattr(cls, _name(suite), _adopt(suite, cls))


def _adopt(suite: type[Suite], adopted: type[Adopted]) -> type[Suite]:
    """Return a subclass of ``suite`` for pytest to collect inside ``adopted``."""

    def backend(_self: Suite) -> str:
        return adopted.backend

    def environ(_self: Suite) -> dict[str, str]:
        return dict(adopted.environ)

    def machine(_self: Suite) -> None:
        if adopted.level.name != "C0":  # C0 is also about machines without the chip
            require_devices(adopted.backend, 1)

    namespace: dict[str, Any] = {
        "__doc__": suite.__doc__,
        "__module__": adopted.__module__,
        "__qualname__": f"{adopted.__qualname__}.{_name(suite)}",
        "backend": pytest.fixture(backend),
        "environ": pytest.fixture(environ),
        "machine": pytest.fixture(autouse=True)(machine),
        "level": adopted.level.name,
        "adopted_for": adopted.backend,
    }
    if issubclass(suite, NamespaceSuite):
        namespace["runs"] = _runs_with(suite, adopted.level.devices)
        if suite.claims_of_several and all(number > 1 for _, number in namespace["runs"]):
            namespace["claims"] = suite.claims_of_several
    made: Any = type(_name(suite), (suite,), namespace)
    return cast("type[Suite]", made)


def _name(suite: type[Suite]) -> str:
    """Return the name under which pytest collects an adopted class."""
    return f"Test{suite.__name__.removesuffix('Tests')}"


def _runs_with(suite: type[NamespaceSuite], devices: tuple[int, ...]) -> Runs:
    """Return the runs of ``suite`` that need one of the counts in ``devices``."""
    return tuple(run for run in suite.runs if max(run[1], suite.least_devices) in devices)


def _find(folder: str, devices: tuple[int, ...]) -> tuple[type[Suite], ...]:
    """Return the leaf test classes of ``folder``; one with runs only if a run needs a count in ``devices``."""
    package = f"{tests.__name__}.{folder}"
    classes = [
        each
        for module in iter_modules([str(Path(*tests.__path__, folder))], f"{package}.")
        for each in vars(import_module(module.name)).values()
        if isinstance(each, type) and issubclass(each, Suite) and each.__module__ == module.name
    ]
    bases = {base for each in classes for base in each.__bases__}
    return tuple(
        each
        for each in classes
        if each not in bases and (not issubclass(each, NamespaceSuite) or _runs_with(each, devices))
    )


def _level(name: str, title: str, *folders: str, devices: tuple[int, ...] = (), least_cases: int = 0) -> Level:
    """Return a level of the classes that :func:`_find` finds in ``folders`` for ``devices``."""
    return Level(
        name, title, tuple(each for folder in folders for each in _find(folder, devices)), devices, least_cases
    )


class C0(Adopted):
    level: ClassVar[Level] = _level("C0", "The plugin", "plugin")


class C1(Adopted):
    level: ClassVar[Level] = _level("C1", "One device", "device")


class C2(Adopted):
    level: ClassVar[Level] = _level("C2", "One device in Lightning", "lightning", devices=(1,))


class C3(Adopted):
    level: ClassVar[Level] = _level("C3", "Several devices", "collective", "lightning", devices=(2, 4), least_cases=200)


class C4(Adopted):
    level: ClassVar[Level] = _level("C4", "Endurance and faults", "endurance", devices=(1, 2))


LEVELS: Mapping[str, Level] = MappingProxyType({each.level.name: each.level for each in (C0, C1, C2, C3, C4)})
