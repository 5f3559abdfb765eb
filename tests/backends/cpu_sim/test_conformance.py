"""The simulated chip passes the levels of the suite: what ``make conformance`` does not show of it is here.

That runs C0 to C3. This file has endurance and faults, and processes that hold a single card and call it 0.
"""

from __future__ import annotations

from types import MappingProxyType

import pytest

from northbridge.conformance.collective.collective_reductions import CollectiveReductions
from northbridge.conformance.collective.exchanges import Exchanges
from northbridge.conformance.collective.groups import Groups
from northbridge.conformance.collective.transfers import Transfers
from northbridge.conformance.level import Adopted, Level
from northbridge.conformance.levels import C4
from northbridge.conformance.lightning.devices import SecondDevice
from northbridge.conformance.lightning.distributed_training import DistributedTraining
from northbridge.conformance.lightning.fabric import FabricTraining
from northbridge.conformance.runs.scenario import Outcome

ONE_PER_PROCESS = MappingProxyType({"NORTHBRIDGE_CPU_SIM_ONE_PER_PROCESS": "1"})


class TestC4(C4):
    backend = "cpu_sim"


class TestOnePerProcess(Adopted):
    level = Level(
        "one per process",
        "Processes that hold one card",
        (CollectiveReductions, Transfers, Exchanges, Groups, DistributedTraining, FabricTraining),
        devices=(2,),
    )
    backend = "cpu_sim"
    environ = ONE_PER_PROCESS


@pytest.mark.parametrize("environ", [{}, dict(ONE_PER_PROCESS)], ids=["all devices", "one per process"])
class TestSecondDevice(SecondDevice):
    @pytest.fixture
    def backend(self) -> str:
        return "cpu_sim"

    def test_it_is_the_card_of_that_number(self, chip: Outcome) -> None:
        assert "card=1" in chip.only("training mlp")["card"]
