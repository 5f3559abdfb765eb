"""The simulated Teco cards, for the tests that every simulated chip has and for their own."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.backends.sdaa.teco import TECO
from tests.backends.simulated.chip import SimChip
from tests.backends.simulated.hooks import (
    give_parts,
    pytest_collection_modifyitems as pytest_collection_modifyitems,
    pytest_configure as pytest_configure,
    pytest_runtest_call as pytest_runtest_call,
    pytest_unconfigure as pytest_unconfigure,
)
from tests.backends.simulated.processes import (
    begin as begin,
    environment as environment,
    loaded as loaded,
    on_ranks as on_ranks,
    run as run,
    start as start,
)
from tests.backends.simulated.room import enter

enter(TECO)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    give_parts(metafunc, TECO)


@pytest.fixture(scope="session")
def sim() -> SimChip:
    """The simulated chip."""
    return TECO


@pytest.fixture(scope="session")
def sdaa(loaded: ModuleType) -> ModuleType:
    """``torch.sdaa`` of this process: 32 core groups."""
    return loaded


@pytest.fixture(params=["renamed", "patched"])
def mode(request: pytest.FixtureRequest) -> dict[str, str]:
    """The two ways in which a vendor can make a device type of torch: which of them Teco took is not public."""
    return {"NORTHBRIDGE_SDAA_SIM_REGISTRATION": str(request.param)}
