"""Processes that tests start are short: they do not see what `make setup` keeps apart (pyproject.toml, science).

Nor do they look for garbage at their end (short_process.py). They are as a user's again where a test takes the variable
back. pytest itself is, and so is what somebody runs who tries an example.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.forks.suite import fork_runs
from tests.tiers import (
    pytest_addoption as pytest_addoption,
    pytest_collection_modifyitems as pytest_collection_modifyitems,
    pytest_configure as pytest_configure,
    pytest_deselected as pytest_deselected,
    pytest_runtest_protocol as pytest_runtest_protocol,
    pytest_runtestloop as pytest_runtestloop,
)

SHORT_PROCESS = "SHORT_PROCESS"
"""The module that the environment's science.pth imports when Python starts."""

os.environ[SHORT_PROCESS] = "1"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as python -m tests: a process would compile all of ours once more
fork_runs()

collect_ignore = ["vendors"]  # some of the distributions there bring tests of their own, for where they are installed


@pytest.fixture(scope="module")
def with_science() -> Iterator[None]:
    """Let the processes of a module's tests see scikit-learn and matplotlib."""
    with pytest.MonkeyPatch.context() as environ:
        environ.delenv(SHORT_PROCESS)
        yield
