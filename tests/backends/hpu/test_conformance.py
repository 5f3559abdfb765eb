"""The simulated Gaudi passes the suite that every chip must pass, eager; where training is concerned, lazy too."""

from __future__ import annotations

import pytest

from northbridge.conformance.checkpoints import Checkpoints, CheckpointsOnTheCPU
from northbridge.conformance.collective import Collective
from northbridge.conformance.device import Device
from northbridge.conformance.devices import DeviceChoice, SecondDevice
from northbridge.conformance.distributed_training import DistributedTraining
from northbridge.conformance.fabric import FabricTraining
from northbridge.conformance.launches import Launches
from northbridge.conformance.metrics import LoggedMetrics
from northbridge.conformance.precision import Precision
from northbridge.conformance.reductions import Reductions
from northbridge.conformance.refusals import Refusals
from northbridge.conformance.strategies import Strategies
from northbridge.conformance.training import Training


class OnTheChip:
    """Where the suite runs."""

    @pytest.fixture
    def backend(self) -> str:
        return "hpu"


class BothModes(OnTheChip):
    """Eager, where operators run at once, and lazy, where the vendor's import changes more of torch."""

    @pytest.fixture(params=["0", "1"], ids=["eager", "lazy"])
    def environ(self, request: pytest.FixtureRequest) -> dict[str, str]:
        return {"PT_HPU_LAZY_MODE": str(request.param)}


class TestDevice(OnTheChip, Device):
    pass


class TestTraining(BothModes, Training):
    pass


class TestPrecision(OnTheChip, Precision):
    pass


class TestDeviceChoice(OnTheChip, DeviceChoice):
    pass


class TestRefusals(OnTheChip, Refusals):
    pass


class TestLaunches(OnTheChip, Launches):
    pass


class TestCheckpoints(BothModes, Checkpoints):
    pass


class TestCheckpointsOnTheCPU(BothModes, CheckpointsOnTheCPU):
    pass


class TestCollective(BothModes, Collective):
    pass


class TestDistributedTraining(BothModes, DistributedTraining):
    pass


class TestFabricTraining(BothModes, FabricTraining):
    pass


class TestReductions(OnTheChip, Reductions):
    pass


class TestLoggedMetrics(OnTheChip, LoggedMetrics):
    pass


class TestStrategies(OnTheChip, Strategies):
    pass


class TestSecondDevice(OnTheChip, SecondDevice):
    pass
