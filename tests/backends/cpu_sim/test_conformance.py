"""The simulated chip passes the suite that every chip must pass.

Where several ranks train, or the second device does, it runs twice: with processes that see all devices, and with
processes that hold a single card and call it 0.
"""

from __future__ import annotations

import pytest

from northbridge.conformance.agreement import FabricWeightsAgreement, WeightsAgreement
from northbridge.conformance.autocast import Autocast
from northbridge.conformance.averaging import GradientAveraging
from northbridge.conformance.callbacks import Callbacks
from northbridge.conformance.checkpoints import Checkpoints, CheckpointsOnTheCPU, KeptCheckpoints
from northbridge.conformance.collective_reductions import CollectiveReductions
from northbridge.conformance.compilation import Compilation, FabricCompilation
from northbridge.conformance.declaration import Declaration
from northbridge.conformance.detection import Detection
from northbridge.conformance.device import Device
from northbridge.conformance.devices import DeviceChoice, SecondDevice
from northbridge.conformance.distributed_training import DistributedTraining
from northbridge.conformance.dtypes import Dtypes
from northbridge.conformance.endurance import Endurance
from northbridge.conformance.fabric import FabricLoops, FabricTraining
from northbridge.conformance.gradients import Gradients
from northbridge.conformance.groups import Groups
from northbridge.conformance.hooks import BridgeHooks, UsersEnvironment
from northbridge.conformance.interruptions import KilledRank, Preemption, Restarts
from northbridge.conformance.joining import Joining
from northbridge.conformance.launches import Launches
from northbridge.conformance.layers import Layers
from northbridge.conformance.loading import Loading
from northbridge.conformance.memory import Memory
from northbridge.conformance.metrics import LoggedMetrics
from northbridge.conformance.missing_parts import MissingHardware, MissingSoftware
from northbridge.conformance.missing_rank import MissingRank
from northbridge.conformance.normalization import FabricSyncBatchNorm, SyncBatchNorm, UnevenSyncBatchNorm
from northbridge.conformance.operations import Operations
from northbridge.conformance.optimization import Optimization
from northbridge.conformance.out_of_memory import OutOfMemory
from northbridge.conformance.outlasting import Outlasting, UsersCheckpointIO
from northbridge.conformance.pickling import Pickling
from northbridge.conformance.placement import Placement
from northbridge.conformance.plugin_import import PluginImport
from northbridge.conformance.plugin_metadata import PluginMetadata
from northbridge.conformance.precision import Precision
from northbridge.conformance.profilers import Profilers
from northbridge.conformance.random_numbers import RandomNumbers
from northbridge.conformance.random_states import RandomStates
from northbridge.conformance.reductions import Reductions
from northbridge.conformance.refusals import Refusals
from northbridge.conformance.saved_tensors import SavedTensors
from northbridge.conformance.scenario import Outcome
from northbridge.conformance.sharding import Resharding, Sharding
from northbridge.conformance.side_by_side import SideBySide
from northbridge.conformance.software_loading import SoftwareLoading
from northbridge.conformance.strategies import Strategies
from northbridge.conformance.streams import Streams
from northbridge.conformance.training import Training
from northbridge.conformance.transfers import Transfers
from northbridge.conformance.views import Views
from northbridge.conformance.waits import Waits


class OnTheChip:
    """Where the suite runs."""

    @pytest.fixture
    def backend(self) -> str:
        return "cpu_sim"


class BothWays(OnTheChip):
    """Processes that see every device, and processes that hold a single card and call it 0."""

    @pytest.fixture(params=["", "1"], ids=["all devices", "one per process"])
    def environ(self, request: pytest.FixtureRequest) -> dict[str, str]:
        return {"NORTHBRIDGE_CPU_SIM_ONE_PER_PROCESS": request.param} if request.param else {}


class TestPluginMetadata(OnTheChip, PluginMetadata):
    pass


class TestPluginImport(OnTheChip, PluginImport):
    pass


class TestDeclaration(OnTheChip, Declaration):
    pass


class TestPickling(OnTheChip, Pickling):
    pass


class TestDetection(OnTheChip, Detection):
    pass


class TestSoftwareLoading(OnTheChip, SoftwareLoading):
    pass


class TestMissingSoftware(OnTheChip, MissingSoftware):
    pass


class TestMissingHardware(OnTheChip, MissingHardware):
    pass


class TestDevice(OnTheChip, Device):
    pass


class TestPlacement(OnTheChip, Placement):
    pass


class TestDtypes(OnTheChip, Dtypes):
    pass


class TestAutocast(OnTheChip, Autocast):
    pass


class TestViews(OnTheChip, Views):
    pass


class TestOperations(OnTheChip, Operations):
    pass


class TestLayers(OnTheChip, Layers):
    pass


class TestGradients(OnTheChip, Gradients):
    pass


class TestRandomNumbers(OnTheChip, RandomNumbers):
    pass


class TestStreams(OnTheChip, Streams):
    pass


class TestMemory(OnTheChip, Memory):
    pass


class TestOutOfMemory(OnTheChip, OutOfMemory):
    pass


class TestSavedTensors(OnTheChip, SavedTensors):
    pass


class TestTraining(OnTheChip, Training):
    pass


class TestPrecision(OnTheChip, Precision):
    pass


class TestDeviceChoice(OnTheChip, DeviceChoice):
    pass


class TestRefusals(OnTheChip, Refusals):
    pass


class TestLaunches(OnTheChip, Launches):
    pass


class TestCheckpoints(OnTheChip, Checkpoints):
    pass


class TestCheckpointsOnTheCPU(OnTheChip, CheckpointsOnTheCPU):
    pass


class TestRandomStates(OnTheChip, RandomStates):
    pass


class TestCollectiveReductions(BothWays, CollectiveReductions):
    pass


class TestTransfers(BothWays, Transfers):
    pass


class TestGroups(BothWays, Groups):
    pass


class TestWaits(BothWays, Waits):
    pass


class TestGradientAveraging(BothWays, GradientAveraging):
    pass


class TestMissingRank(BothWays, MissingRank):
    pass


class TestKeptCheckpoints(OnTheChip, KeptCheckpoints):
    pass


class TestBridgeHooks(OnTheChip, BridgeHooks):
    pass


class TestUsersEnvironment(OnTheChip, UsersEnvironment):
    pass


class TestDistributedTraining(BothWays, DistributedTraining):
    pass


class TestFabricTraining(BothWays, FabricTraining):
    pass


class TestReductions(BothWays, Reductions):
    pass


class TestLoggedMetrics(BothWays, LoggedMetrics):
    pass


class TestStrategies(BothWays, Strategies):
    pass


class TestWeightsAgreement(BothWays, WeightsAgreement):
    pass


class TestFabricWeightsAgreement(BothWays, FabricWeightsAgreement):
    pass


class TestSyncBatchNorm(BothWays, SyncBatchNorm):
    pass


class TestUnevenSyncBatchNorm(BothWays, UnevenSyncBatchNorm):
    pass


class TestFabricSyncBatchNorm(BothWays, FabricSyncBatchNorm):
    pass


class TestSecondDevice(BothWays, SecondDevice):
    def test_it_is_the_card_of_that_number(self, chip: Outcome) -> None:
        assert "card=1" in chip.only("training mlp")["card"]


class TestSharding(OnTheChip, Sharding):
    pass


class TestResharding(OnTheChip, Resharding):
    pass


class TestCallbacks(OnTheChip, Callbacks):
    pass


class TestCompilation(OnTheChip, Compilation):
    pass


class TestFabricCompilation(OnTheChip, FabricCompilation):
    pass


class TestFabricLoops(OnTheChip, FabricLoops):
    pass


class TestJoining(OnTheChip, Joining):
    pass


class TestLoading(OnTheChip, Loading):
    pass


class TestOptimization(OnTheChip, Optimization):
    pass


class TestPreemption(OnTheChip, Preemption):
    pass


class TestRestarts(OnTheChip, Restarts):
    pass


class TestKilledRank(OnTheChip, KilledRank):
    pass


class TestEndurance(OnTheChip, Endurance):
    pass


class TestSideBySide(OnTheChip, SideBySide):
    pass


class TestOutlasting(OnTheChip, Outlasting):
    pass


class TestUsersCheckpointIO(OnTheChip, UsersCheckpointIO):
    pass


class TestProfilers(OnTheChip, Profilers):
    pass
