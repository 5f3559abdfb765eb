"""The chip that this pytest simulates, with its hooks and fixtures; a folder whose tests run on it imports all.

A ``conftest.py`` does so with a star, before torch is imported.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.hooks import (
    enter,
    give_parts,
    pytest_collection_modifyitems as pytest_collection_modifyitems,
    pytest_configure as pytest_configure,
    pytest_runtest_call as pytest_runtest_call,
    pytest_unconfigure as pytest_unconfigure,
)
from tests.backends.simulation.page import Page
from tests.backends.simulation.processes import (
    begin as begin,
    environment as environment,
    loaded as loaded,
    on_ranks as on_ranks,
    run as run,
    server as server,
    start as start,
)

if os.environ["NORTHBRIDGE_SIMULATE"] == "hpu":
    from tests.backends.hpu.gaudi import GAUDI

    CHIP = GAUDI
elif os.environ["NORTHBRIDGE_SIMULATE"] == "xpu":
    import northbridge_xpu
    from northbridge_xpu.simulated.machine import RECORD

    CHIP = SimChip(
        name="xpu",
        package=northbridge_xpu,
        record=RECORD,
        imports="import torch\nimport northbridge\nnorthbridge.load('xpu')\n",
        collective="xccl",
        variables=("ZE", "ONEAPI"),
        page=Page("docs/simulated-intel-gpus.md"),
        scripts=Path(__file__).parent / "scripts",
        modes={"flat": {"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}},
        eight_ranks="xpu available: True (simulated), using: 8 devices (4 cards)",
        places=tuple(f"rank {rank}: node {rank // 2}, device {rank % 2}" for rank in range(4)),
    )
elif os.environ["NORTHBRIDGE_SIMULATE"] == "npu":
    import northbridge_npu
    from northbridge_npu.simulated.machine import RECORD

    CHIP = SimChip(
        name="npu",
        package=northbridge_npu,
        record=RECORD,
        imports="import torch\nimport torch_npu\n",
        collective="hccl",
        variables=("ASCEND", "HCCL"),
        page=Page("docs/npu.md"),
        scripts=Path(__file__).parent / "scripts",
        modes={"eager": {}},
        eight_ranks="npu available: True (simulated), using: 8 devices",
        places=tuple(f"rank {rank}: node {rank // 2}, device {rank % 2}" for rank in range(4)),
    )
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
