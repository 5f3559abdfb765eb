"""The simulated Teco cards, for the tests that are their own."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.backends.simulation.simulation import *  # noqa: F403 - its hooks and fixtures are those of this folder


@pytest.fixture(scope="session")
def sdaa(loaded: ModuleType) -> ModuleType:
    """``torch.sdaa`` of this process: 32 core groups."""
    return loaded
