"""The levels of the suite, and how a backend's own tests adopt them.

A file of four classes is all that a backend's tests need::

    from northbridge.conformance.levels import C0, C1, C2, C3

    class TestC0(C0):
        backend = "acme"

    class TestC1(C1):
        backend = "acme"

and so on. Each holds the classes of its level, as classes within it: ``TestC1::TestDevice::test_indexing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from northbridge.conformance.level import Adopted, Level
from northbridge.conformance.tests.collective.collective_reductions import CollectiveReductions
from northbridge.conformance.tests.collective.ddp_gradients import GradientAveraging
from northbridge.conformance.tests.collective.groups import FollowingGroups, GroupsTests
from northbridge.conformance.tests.collective.transfers import Exchanges, Transfers
from northbridge.conformance.tests.collective.waits import MissingRank, Waits
from northbridge.conformance.tests.device.device import DeviceTests
from northbridge.conformance.tests.device.dtypes import Dtypes
from northbridge.conformance.tests.device.extremes import ExtremeNumbers, LargeOperations
from northbridge.conformance.tests.device.gradients import Gradients
from northbridge.conformance.tests.device.inference_mode import InferenceMode
from northbridge.conformance.tests.device.layers import Layers, Traces
from northbridge.conformance.tests.device.matrix_unit import MatrixUnit
from northbridge.conformance.tests.device.memory import Memory, OutOfMemory
from northbridge.conformance.tests.device.mixed_precision import Autocast, GradientScaling
from northbridge.conformance.tests.device.operation_options import OperationOptions
from northbridge.conformance.tests.device.operations import Operations
from northbridge.conformance.tests.device.placement import Placement
from northbridge.conformance.tests.device.random_numbers import Distributions, RandomNumbers
from northbridge.conformance.tests.device.saved_tensors import SavedTensors
from northbridge.conformance.tests.device.streams import Streams
from northbridge.conformance.tests.device.views import Views
from northbridge.conformance.tests.endurance.endurance import Endurance
from northbridge.conformance.tests.endurance.interruptions import KilledRank, Preemption, Restarts
from northbridge.conformance.tests.endurance.launches import Launches
from northbridge.conformance.tests.endurance.side_by_side import SideBySide
from northbridge.conformance.tests.lightning.callbacks import Callbacks, Profilers
from northbridge.conformance.tests.lightning.checkpoints import (
    Checkpoints,
    CheckpointsOnTheCPU,
    KeptCheckpoints,
    Outlasting,
    UsersCheckpointIO,
)
from northbridge.conformance.tests.lightning.compilation import Compilation, FabricCompilation
from northbridge.conformance.tests.lightning.data_loaders import Loading
from northbridge.conformance.tests.lightning.ddp import DistributedTraining, Strategies
from northbridge.conformance.tests.lightning.devices import DeviceChoice, LastDevices, SecondDevice
from northbridge.conformance.tests.lightning.fabric import FabricLoops, FabricTraining, Joining
from northbridge.conformance.tests.lightning.hooks import BridgeHooks, UsersEnvironment
from northbridge.conformance.tests.lightning.normalization import (
    FabricSyncBatchNorm,
    SyncBatchNormTests,
    UnevenSyncBatchNorm,
)
from northbridge.conformance.tests.lightning.optimization import Optimization
from northbridge.conformance.tests.lightning.precision import Precision
from northbridge.conformance.tests.lightning.random_states import RandomStates
from northbridge.conformance.tests.lightning.reductions import LoggedMetrics, Reductions
from northbridge.conformance.tests.lightning.refusals import Refusals
from northbridge.conformance.tests.lightning.sharding import Resharding, Sharding
from northbridge.conformance.tests.lightning.training import TrainingTests
from northbridge.conformance.tests.lightning.weights_agreement import FabricWeightsAgreement, WeightsAgreementTests
from northbridge.conformance.tests.plugin.declaration import Declaration, PluginMetadata
from northbridge.conformance.tests.plugin.detection import Detection, MissingHardware, MissingSoftware
from northbridge.conformance.tests.plugin.pickling import Pickling
from northbridge.conformance.tests.plugin.software import PluginImport, SoftwareLoading

_ONE_OR_SEVERAL = (
    FabricTraining,
    Checkpoints,
    CheckpointsOnTheCPU,
    RandomStates,
    Callbacks,
    Optimization,
    Loading,
    FabricLoops,
    Outlasting,
    UsersCheckpointIO,
    Profilers,
    Compilation,
    FabricCompilation,
)


class C0(Adopted):
    level: ClassVar[Level] = Level(
        "C0",
        "The plugin",
        (
            PluginMetadata,
            PluginImport,
            Declaration,
            Pickling,
            Detection,
            SoftwareLoading,
            MissingSoftware,
            MissingHardware,
        ),
    )


class C1(Adopted):
    level: ClassVar[Level] = Level(
        "C1",
        "One device",
        (
            DeviceTests,
            Placement,
            Dtypes,
            MatrixUnit,
            Autocast,
            GradientScaling,
            Views,
            Operations,
            OperationOptions,
            ExtremeNumbers,
            LargeOperations,
            Layers,
            Traces,
            Gradients,
            InferenceMode,
            RandomNumbers,
            Distributions,
            Streams,
            Memory,
            OutOfMemory,
            SavedTensors,
        ),
    )


class C2(Adopted):
    level: ClassVar[Level] = Level(
        "C2",
        "One device in Lightning",
        (
            TrainingTests,
            Precision,
            DeviceChoice,
            Refusals,
            KeptCheckpoints,
            BridgeHooks,
            UsersEnvironment,
            *_ONE_OR_SEVERAL,
        ),
        devices=(1,),
    )


class C3(Adopted):
    level: ClassVar[Level] = Level(
        "C3",
        "Several devices",
        (
            CollectiveReductions,
            Transfers,
            Exchanges,
            GroupsTests,
            FollowingGroups,
            Waits,
            GradientAveraging,
            MissingRank,
            DistributedTraining,
            Reductions,
            LoggedMetrics,
            Strategies,
            Joining,
            WeightsAgreementTests,
            FabricWeightsAgreement,
            SyncBatchNormTests,
            UnevenSyncBatchNorm,
            FabricSyncBatchNorm,
            SecondDevice,
            LastDevices,
            Sharding,
            Resharding,
            *_ONE_OR_SEVERAL,
        ),
        devices=(2, 4),
        least_cases=200,
    )


class C4(Adopted):
    level: ClassVar[Level] = Level(
        "C4",
        "Endurance and faults",
        (Launches, Preemption, Restarts, KilledRank, Endurance, SideBySide),
        devices=(1, 2),
    )


LEVELS: Mapping[str, Level] = MappingProxyType({each.level.name: each.level for each in (C0, C1, C2, C3, C4)})
