"""The chip that this pytest simulates, with its hooks and fixtures; a folder whose tests run on it imports all.

A ``conftest.py`` does so with a star, before torch is imported.
"""

from __future__ import annotations

import os

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.hooks import (
    give_parts,
    pytest_collection_modifyitems as pytest_collection_modifyitems,
    pytest_configure as pytest_configure,
    pytest_runtest_call as pytest_runtest_call,
    pytest_unconfigure as pytest_unconfigure,
)
from tests.backends.simulation.processes import (
    begin as begin,
    environment as environment,
    loaded as loaded,
    on_ranks as on_ranks,
    run as run,
    server as server,
    start as start,
)
from tests.backends.simulation.room import enter

if os.environ["NORTHBRIDGE_SIMULATE"] == "hpu":
    from tests.backends.hpu.gaudi import GAUDI

    CHIP = GAUDI
elif os.environ["NORTHBRIDGE_SIMULATE"] == "xpu":
    from tests.backends.simulation.intel import INTEL

    CHIP = INTEL
elif os.environ["NORTHBRIDGE_SIMULATE"] == "npu":
    from tests.backends.simulation.ascend import ASCEND

    CHIP = ASCEND
else:
    from tests.backends.sdaa.teco import TECO

    CHIP = TECO

enter(CHIP)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    give_parts(metafunc, CHIP)


@pytest.fixture(scope="session")
def sim() -> SimChip:
    """The simulated chip."""
    return CHIP


@pytest.fixture(params=CHIP.modes)
def mode(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables of the mode that is tested, for each mode of the chip."""
    return dict(CHIP.modes[request.param])
