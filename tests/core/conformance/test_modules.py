"""What every module of the suite needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

from northbridge import conformance
from northbridge.conformance.suite import Suite

MODULES = [each.name for each in pkgutil.iter_modules(conformance.__path__)]


def has_tests(name: str) -> bool:
    module = importlib.import_module(f"{conformance.__name__}.{name}")
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    return any(issubclass(each, Suite) and any(name.startswith("test") for name in vars(each)) for each in classes)


@pytest.mark.parametrize("name", [name for name in MODULES if has_tests(name)])
def test_a_failing_assertion_of_the_suite_shows_its_values(name: str) -> None:
    assert name in conformance.MODULES


def test_the_modules_with_tests_are_all_there_is_to_rewrite() -> None:
    assert [name for name in MODULES if has_tests(name)] == sorted(conformance.MODULES)
