"""Skips of the suite's tests on machines that lack something, and what holds for each of its classes and modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest
from tests.core.conftest import Install

import northbridge_conformance
from northbridge_conformance.levels import C1, LEVELS
from northbridge_conformance.suite import Suite, require_devices

ASKS = """
import pytest
from northbridge_conformance.suite import require_devices

try:
    require_devices("load_needs_software", 1)
except pytest.skip.Exception as skipped:
    print(skipped)
"""


def test_test_is_skipped_without_the_vendors_software(install: Install) -> None:
    said = install("load_needs_software").python(ASKS)

    assert said.stdout == (
        "backend 'load_needs_software' (northbridge-load-needs-software 1.2.3): its software"
        " 'torch_load_needs_software' is not installed. Fix: install the vendor's package\n"
    )


def test_a_test_is_skipped_where_fewer_devices_are_here() -> None:
    with pytest.raises(pytest.skip.Exception) as skipped:
        require_devices("cpu_sim", 100)

    assert str(skipped.value) == "it needs 100 devices of cpu_sim, and this machine has 8"


def test_software_that_is_broken_is_not_a_reason_to_skip(install_here: Install) -> None:
    install_here("import_raises")

    with pytest.raises(Exception, match=r"libacme\.so\.3 wants GLIBC_2\.99"):
        require_devices("import_raises", 1)


def test_every_class_of_a_level_above_c0_asks_for_a_device_first() -> None:
    class Adopted(C1):
        backend = "acme"

    asks = [suite for name, suite in vars(Adopted).items() if name.startswith("Test")]

    assert len(asks) == len(C1.level.classes)
    assert all(hasattr(suite, "machine") for suite in asks)


def test_the_advice_of_every_class_is_a_sentence() -> None:
    texts = [suite.advice for level in LEVELS.values() for suite in level.classes]

    assert [text for text in texts if not re.fullmatch(r"(?:[A-Z]|torch).*\.", text)] == []  # torch has no capital


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
