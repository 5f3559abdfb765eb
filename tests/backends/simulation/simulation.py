"""The chip that this pytest simulates, with its hooks and fixtures, which ``tests/backends/conftest.py`` imports.

It does so before torch is imported. In the room of the run are the record of what the run's processes touch, and the
servers that they stand on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.backends.simulation.chip import Page, SimChip
from tests.backends.simulation.jobs import documented as documented, nodes as nodes, start as start
from tests.backends.simulation.processes import (
    begin as begin,
    environment as environment,
    loaded as loaded,
    on_ranks as on_ranks,
    run as run,
    server as server,
)

from northbridge_cpu_sim import Record

ROOM = Path(tempfile.mkdtemp(prefix="northbridge-sim-"))
NAME = os.environ["NORTHBRIDGE_SIMULATE"]

if NAME == "hpu":
    import northbridge_hpu
    from northbridge_hpu.simulated import machine

    CHIP = SimChip(
        name="hpu",
        package=northbridge_hpu,
        record=machine.RECORD,
        server=machine.server,
        imports="import torch\nimport habana_frameworks.torch\nimport habana_frameworks.torch.core as htcore\n",
        collective="hccl",
        variables=("HABANA", "HLS", "PT", "HCCL", "HCL", "EXPERIMENTAL", "OMPI_COMM_WORLD"),
        page=Page("examples/simulated_gaudi.md"),
        # Eager, where operators run at once, and lazy, where the vendor's import changes more of torch.
        modes={"eager": {"PT_HPU_LAZY_MODE": "0"}, "lazy": {"PT_HPU_LAZY_MODE": "1"}},
        eight_ranks="hpu available: True (simulated), using: 8 devices",
        # The same modules on both nodes, whatever cards those are.
        places=(
            "rank 0: node 0, card 6, module 0",
            "rank 1: node 0, card 5, module 1",
            "rank 2: node 1, card 7, module 0",
            "rank 3: node 1, card 6, module 1",
        ),
        nodes=({"NORTHBRIDGE_HPU_SIM_MODULES": "5,4,7,6,2,1,0,3"}, {"NORTHBRIDGE_HPU_SIM_MODULES": "7,6,5,4,3,2,1,0"}),
    )
elif NAME == "xpu":
    import northbridge_xpu
    from northbridge_xpu.simulated.machine import RECORD

    CHIP = SimChip(
        name="xpu",
        package=northbridge_xpu,
        record=RECORD,
        imports="import torch\nimport northbridge\nnorthbridge.load('xpu')\n",
        collective="xccl",
        variables=("ZE", "ONEAPI"),
        page=Page("docs/xpu.md"),
        modes={"flat": {"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}},
    )
elif NAME == "npu":
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
        modes={"eager": {}},
    )
else:
    import northbridge_sdaa
    from northbridge_sdaa.simulated.machine import RECORD

    CHIP = SimChip(
        name="sdaa",
        package=northbridge_sdaa,
        record=RECORD,
        imports="import torch\nimport torch_sdaa\n",
        collective="tccl",
        variables=("SDAA", "TORCH_SDAA", "TCCL", "TECO"),
        page=Page("examples/simulated_teco.md"),
        # The two ways in which a vendor can make a device type of torch: which of them Teco took is not public.
        modes={each: {"NORTHBRIDGE_SDAA_SIM_REGISTRATION": each} for each in ("renamed", "patched")},
        eight_ranks="sdaa available: True (simulated), using: 8 devices (2 cards)",
    )

os.environ[CHIP.record.VARIABLE] = str(ROOM / "record")
if CHIP.server is not None:
    # This process uses a server of its own, so that the card that it takes is not one of the tests'.
    os.environ.update(CHIP.on_server(ROOM / "own"))
    CHIP.server()
    os.environ.update(CHIP.on_server(ROOM / "server"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shows(*names): lines of contract.toml, no symbols, that the test shows")
    config.addinivalue_line("markers", "of_the_whole_run: looks at what all other tests left behind; runs last")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(ROOM, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    last = [item for item in items if item.get_closest_marker("of_the_whole_run")]
    others = [item for item in items if item not in last]
    if last and not _are_whole(config, others, last):
        config.hook.pytest_deselected(items=last)
        last = []
    items[:] = others + last


def _are_whole(config: pytest.Config, others: list[pytest.Item], last: list[pytest.Item]) -> bool:
    """Return whether every test of the chip is going to run: its own, and those that every chip has."""
    if config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args):
        return False
    shared = last[0].path.parent
    files = {file for folder in (shared, shared.with_name(NAME)) for file in folder.rglob("test_*.py")}
    return files <= {item.path for item in others}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    # The test has passed, or the line above has raised.
    for marker in item.iter_markers("shows"):
        for name in marker.args:
            Record().note(name, "show")


@pytest.fixture(scope="session")
def sim() -> SimChip:
    """The simulated chip."""
    return CHIP


@pytest.fixture(params=CHIP.modes)
def mode(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables of the mode that is tested, for each mode of the chip."""
    return dict(CHIP.modes[request.param])


@pytest.fixture(scope="session")
def hpu(loaded: ModuleType) -> ModuleType:
    """``torch.hpu`` of this process: a second-generation card, in eager mode."""
    return loaded


@pytest.fixture(scope="session")
def sdaa(loaded: ModuleType) -> ModuleType:
    """``torch.sdaa`` of this process: 32 core groups."""
    return loaded
