"""Requirements of every module of the suite."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import northbridge_conformance
from northbridge_conformance.suite import Suite

HERE = f"{northbridge_conformance.__name__}."
MODULES = [
    each.name for each in pkgutil.walk_packages(northbridge_conformance.__path__, HERE) if ".questions" not in each.name
]


def has_tests(name: str) -> bool:
    module = importlib.import_module(name)
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    return any(issubclass(each, Suite) and any(name.startswith("test") for name in vars(each)) for each in classes)


@pytest.mark.parametrize("name", [name for name in MODULES if has_tests(name)])
def test_a_failing_assertion_of_the_suite_shows_its_values(name: str) -> None:
    assert name.removeprefix(HERE).partition(".")[0] in northbridge_conformance.WITH_TESTS


def test_nothing_else_is_rewritten() -> None:
    rooms = {name.removeprefix(HERE).partition(".")[0] for name in MODULES if has_tests(name)}

    assert {*rooms, "suite"} == set(northbridge_conformance.WITH_TESTS)
