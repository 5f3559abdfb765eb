"""The simulated Gaudi, for the tests that every simulated chip has and for its own."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.backends.hpu.gaudi import GAUDI
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
    server as server,
    start as start,
)
from tests.backends.simulated.room import enter

enter(GAUDI)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    give_parts(metafunc, GAUDI)


@pytest.fixture(scope="session")
def sim() -> SimChip:
    """The simulated chip."""
    return GAUDI


@pytest.fixture(scope="session")
def hpu(loaded: ModuleType) -> ModuleType:
    """``torch.hpu`` of this process: a second-generation card, in eager mode."""
    return loaded


@pytest.fixture(params=["0", "1"], ids=["eager", "lazy"])
def mode(request: pytest.FixtureRequest) -> dict[str, str]:
    """Eager, where operators run at once, and lazy, where the vendor's import changes more of torch."""
    return {"PT_HPU_LAZY_MODE": str(request.param)}
