"""Chips are tested with strict options, and each simulated one of a vendor in a pytest of its own.

``NORTHBRIDGE_SIMULATE=name pytest tests/backends/name tests/backends/simulated`` runs its own and those that every
simulation has; ``make test`` does so for each: torch serves one accelerator per process.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from northbridge.discovery.installed import announced
from northbridge.discovery.simulated import GROUP

HERE = Path(__file__).parent

STRICT = {
    "NORTHBRIDGE_CPU_SIM_STREAMS": "deferred",
    "NORTHBRIDGE_CPU_SIM_FRESH": "nan",
    "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1",
}
"""The variables that a test may remove for a process that it starts."""

STRICTER = {"NORTHBRIDGE_CPU_SIM_FREED": "trap", "NORTHBRIDGE_CPU_SIM_ERRORS": "asynchronous"}
"""Added where a simulated chip is tested, and for the processes of the suite that every chip must pass."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Set them while a test below runs, and its fixtures are made: no longer, since others show what users have."""
    if HERE not in item.path.parents:
        return (yield)  # pytest calls this for tests elsewhere, too
    is_suite = "NORTHBRIDGE_SIMULATE" in os.environ or item.path.name == "test_conformance.py"
    strict = STRICT | STRICTER if is_suite else STRICT
    before = {variable: os.environ.get(variable) for variable in strict}
    os.environ.update(strict)
    try:
        return (yield)
    finally:
        for variable, value in before.items():
            if value is None:
                del os.environ[variable]
            else:
                os.environ[variable] = value


_SIMULATED = os.environ.get("NORTHBRIDGE_SIMULATE")
collect_ignore = [plugin.name for plugin in announced(GROUP) if plugin.name != _SIMULATED]
if _SIMULATED is None:
    collect_ignore.append("simulated")

# pytest rewrites assertions in test files alone, and these are the bodies of tests.
pytest.register_assert_rewrite("tests.backends.exports", "tests.backends.simulation", "tests.backends.simulated")

if _SIMULATED is not None:
    from tests.backends.simulation.simulation import *  # noqa: F403 - its hooks and fixtures are those of this folder
