"""The simulated chip passes the levels of the suite; so it does where a process holds a single card and calls it 0."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest
from tests.backends.one_namespace import in_one_namespace_of_a_kind
from tests.conformance.proving import prove

from northbridge_conformance.levels import C4, Adopted, Level
from northbridge_conformance.run import RunResult
from northbridge_conformance.tests.collective.groups import GroupsTests
from northbridge_conformance.tests.collective.transfers import Transfers
from northbridge_conformance.tests.lightning.ddp import DistributedTraining
from northbridge_conformance.tests.lightning.devices import SecondDevice
from northbridge_conformance.tests.lightning.fabric import FabricTraining

ONE_PER_PROCESS = MappingProxyType({"NORTHBRIDGE_CPU_SIM_ONE_PER_PROCESS": "1"})


@pytest.mark.timeout(3600)  # the suite has limits of its own, and says which test outlasted them
def test_it_earns_c3(tmp_path: Path) -> None:
    assert prove("cpu_sim", tmp_path / "report") == []


class TestC4(C4):
    backend = "cpu_sim"


class TestOnePerProcess(Adopted):
    level = Level(
        "one per process",
        "Processes that hold one card",
        in_one_namespace_of_a_kind(Transfers, GroupsTests, DistributedTraining, FabricTraining),
        devices=(2,),
    )
    backend = "cpu_sim"
    environ = ONE_PER_PROCESS


@pytest.mark.parametrize("environ", [{}, dict(ONE_PER_PROCESS)], ids=["all devices", "one per process"])
class TestSecondDevice(SecondDevice):
    @pytest.fixture
    def backend(self) -> str:
        return "cpu_sim"

    def test_it_is_the_card_of_that_number(self, chip: RunResult) -> None:
        assert "card=1" in chip.only("train mlp")["card"]
