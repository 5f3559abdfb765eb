"""The simulated Gaudi, for the tests that are its own."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.backends.simulation.simulation import *  # noqa: F403 - its hooks and fixtures are those of this folder


@pytest.fixture(scope="session")
def hpu(loaded: ModuleType) -> ModuleType:
    """``torch.hpu`` of this process: a second-generation card, in eager mode."""
    return loaded
