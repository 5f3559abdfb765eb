"""One level of the suite, and the class with which a backend's own tests adopt it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, cast

import pytest

from northbridge.capabilities import LEVEL_CLAIMS
from northbridge.conformance.suite import NamespaceSuite, Suite, require_devices


@dataclass(frozen=True)
class Level:
    """What is asked of a backend at once."""

    name: str
    title: str
    classes: tuple[type[Suite], ...]
    devices: tuple[int, ...] = ()
    """With how many devices a class runs that runs with several numbers of them."""

    least_cases: int = 0
    """How many tests have to run, for the level to say anything."""

    @property
    def claims(self) -> tuple[str, ...]:
        """What the backend has to claim and to prove, beside the claims of the levels below."""
        return LEVEL_CLAIMS[self.name]


class Adopted:
    """The tests of a level, for a backend that a subclass names; see :mod:`northbridge.conformance.levels`."""

    level: ClassVar[Level]
    backend: ClassVar[str]
    environ: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Variables that are set for the processes of a run."""

    def __init_subclass__(cls) -> None:
        if "backend" in vars(cls):
            for suite in cls.level.classes:
                setattr(cls, _name(suite), _adopt(suite, cls))


def _adopt(suite: type[Suite], adopted: type[Adopted]) -> type[Suite]:
    """Return a class of the tests of ``suite``, as pytest is to collect it within ``adopted``."""

    def backend(_self: Suite) -> str:
        return adopted.backend

    def environ(_self: Suite) -> dict[str, str]:
        return dict(adopted.environ)

    def machine(_self: Suite) -> None:
        if adopted.level.name != "C0":  # which is about machines without the chip too
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
        # Of a class that runs with one device and with several, those of the level; of others, all.
        runs = tuple(run for run in suite.runs if run[1] in adopted.level.devices)
        namespace["runs"] = runs or suite.runs
        if suite.claims_of_several and all(number > 1 for _, number in namespace["runs"]):
            namespace["claims"] = suite.claims_of_several
    made: Any = type(_name(suite), (suite,), namespace)
    return cast("type[Suite]", made)


def _name(suite: type[Suite]) -> str:
    """Return the name of an adopted class, which pytest collects."""
    return f"Test{suite.__name__.removesuffix('Tests')}"
