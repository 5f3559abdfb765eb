"""The suite that every chip must pass, for a chip that poses; where training is concerned, in each of its modes.

A chip's ``test_conformance.py`` takes every class of this module for its own.
"""

from __future__ import annotations

import pytest
from tests.backends.posed.chip import PosedChip

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
    def backend(self, posed: PosedChip) -> str:
        return posed.name


class InEachMode(OnTheChip):
    """Where the processes of a run are told of a mode."""

    @pytest.fixture
    def environ(self, mode: dict[str, str]) -> dict[str, str]:
        return mode


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


class TestTraining(InEachMode, Training):
    pass


class TestPrecision(OnTheChip, Precision):
    pass


class TestDeviceChoice(OnTheChip, DeviceChoice):
    pass


class TestRefusals(OnTheChip, Refusals):
    pass


class TestLaunches(OnTheChip, Launches):
    pass


class TestCheckpoints(InEachMode, Checkpoints):
    pass


class TestCheckpointsOnTheCPU(InEachMode, CheckpointsOnTheCPU):
    pass


class TestRandomStates(InEachMode, RandomStates):
    pass


class TestCollectiveReductions(InEachMode, CollectiveReductions):
    pass


class TestTransfers(InEachMode, Transfers):
    pass


class TestGroups(InEachMode, Groups):
    pass


class TestWaits(InEachMode, Waits):
    pass


class TestGradientAveraging(InEachMode, GradientAveraging):
    pass


class TestMissingRank(InEachMode, MissingRank):
    pass


class TestKeptCheckpoints(OnTheChip, KeptCheckpoints):
    pass


class TestBridgeHooks(OnTheChip, BridgeHooks):
    pass


class TestUsersEnvironment(OnTheChip, UsersEnvironment):
    pass


class TestDistributedTraining(InEachMode, DistributedTraining):
    pass


class TestFabricTraining(InEachMode, FabricTraining):
    pass


class TestReductions(OnTheChip, Reductions):
    pass


class TestLoggedMetrics(OnTheChip, LoggedMetrics):
    pass


class TestStrategies(OnTheChip, Strategies):
    pass


class TestWeightsAgreement(OnTheChip, WeightsAgreement):
    pass


class TestFabricWeightsAgreement(OnTheChip, FabricWeightsAgreement):
    pass


class TestSyncBatchNorm(OnTheChip, SyncBatchNorm):
    pass


class TestUnevenSyncBatchNorm(OnTheChip, UnevenSyncBatchNorm):
    pass


class TestFabricSyncBatchNorm(OnTheChip, FabricSyncBatchNorm):
    pass


class TestSecondDevice(OnTheChip, SecondDevice):
    pass


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
