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

from northbridge.conformance.collective.averaging import GradientAveraging
from northbridge.conformance.collective.collective_reductions import CollectiveReductions
from northbridge.conformance.collective.exchanges import Exchanges
from northbridge.conformance.collective.following_groups import FollowingGroups
from northbridge.conformance.collective.groups import Groups
from northbridge.conformance.collective.missing_rank import MissingRank
from northbridge.conformance.collective.transfers import Transfers
from northbridge.conformance.collective.waits import Waits
from northbridge.conformance.device.autocast import Autocast
from northbridge.conformance.device.device import Device
from northbridge.conformance.device.distributions import Distributions
from northbridge.conformance.device.dtypes import Dtypes
from northbridge.conformance.device.extreme_numbers import ExtremeNumbers
from northbridge.conformance.device.gradient_scaling import GradientScaling
from northbridge.conformance.device.gradients import Gradients
from northbridge.conformance.device.inference_mode import InferenceMode
from northbridge.conformance.device.large_operations import LargeOperations
from northbridge.conformance.device.layers import Layers
from northbridge.conformance.device.matrix_unit import MatrixUnit
from northbridge.conformance.device.memory import Memory
from northbridge.conformance.device.operation_options import OperationOptions
from northbridge.conformance.device.operations import Operations
from northbridge.conformance.device.out_of_memory import OutOfMemory
from northbridge.conformance.device.placement import Placement
from northbridge.conformance.device.random_numbers import RandomNumbers
from northbridge.conformance.device.saved_tensors import SavedTensors
from northbridge.conformance.device.streams import Streams
from northbridge.conformance.device.traces import Traces
from northbridge.conformance.device.views import Views
from northbridge.conformance.endurance.endurance import Endurance
from northbridge.conformance.endurance.interruptions import KilledRank, Preemption, Restarts
from northbridge.conformance.endurance.launches import Launches
from northbridge.conformance.endurance.side_by_side import SideBySide
from northbridge.conformance.level import Adopted, Level
from northbridge.conformance.lightning.agreement import FabricWeightsAgreement, WeightsAgreement
from northbridge.conformance.lightning.callbacks import Callbacks
from northbridge.conformance.lightning.checkpoints import Checkpoints, CheckpointsOnTheCPU, KeptCheckpoints
from northbridge.conformance.lightning.compilation import Compilation, FabricCompilation
from northbridge.conformance.lightning.devices import DeviceChoice, LastDevices, SecondDevice
from northbridge.conformance.lightning.distributed_training import DistributedTraining
from northbridge.conformance.lightning.fabric import FabricLoops, FabricTraining
from northbridge.conformance.lightning.hooks import BridgeHooks, UsersEnvironment
from northbridge.conformance.lightning.joining import Joining
from northbridge.conformance.lightning.loading import Loading
from northbridge.conformance.lightning.metrics import LoggedMetrics
from northbridge.conformance.lightning.normalization import FabricSyncBatchNorm, SyncBatchNorm, UnevenSyncBatchNorm
from northbridge.conformance.lightning.optimization import Optimization
from northbridge.conformance.lightning.outlasting import Outlasting, UsersCheckpointIO
from northbridge.conformance.lightning.precision import Precision
from northbridge.conformance.lightning.profilers import Profilers
from northbridge.conformance.lightning.random_states import RandomStates
from northbridge.conformance.lightning.reductions import Reductions
from northbridge.conformance.lightning.refusals import Refusals
from northbridge.conformance.lightning.sharding import Resharding, Sharding
from northbridge.conformance.lightning.strategies import Strategies
from northbridge.conformance.lightning.training import Training
from northbridge.conformance.plugin.declaration import Declaration
from northbridge.conformance.plugin.detection import Detection
from northbridge.conformance.plugin.missing_parts import MissingHardware, MissingSoftware
from northbridge.conformance.plugin.pickling import Pickling
from northbridge.conformance.plugin.plugin_import import PluginImport
from northbridge.conformance.plugin.plugin_metadata import PluginMetadata
from northbridge.conformance.plugin.software_loading import SoftwareLoading

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

LEVELS: Mapping[str, Level] = MappingProxyType(
    {
        level.name: level
        for level in (
            Level(
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
            ),
            Level(
                "C1",
                "One device",
                (
                    Device,
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
            ),
            Level(
                "C2",
                "One device in Lightning",
                (
                    Training,
                    Precision,
                    DeviceChoice,
                    Refusals,
                    KeptCheckpoints,
                    BridgeHooks,
                    UsersEnvironment,
                    *_ONE_OR_SEVERAL,
                ),
                devices=(1,),
            ),
            Level(
                "C3",
                "Several devices",
                (
                    CollectiveReductions,
                    Transfers,
                    Exchanges,
                    Groups,
                    FollowingGroups,
                    Waits,
                    GradientAveraging,
                    MissingRank,
                    DistributedTraining,
                    Reductions,
                    LoggedMetrics,
                    Strategies,
                    Joining,
                    WeightsAgreement,
                    FabricWeightsAgreement,
                    SyncBatchNorm,
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
            ),
            Level(
                "C4",
                "Endurance and faults",
                (Launches, Preemption, Restarts, KilledRank, Endurance, SideBySide),
                devices=(1, 2),
            ),
        )
    }
)


class C0(Adopted):
    """The plugin."""

    level = LEVELS["C0"]


class C1(Adopted):
    """One device."""

    level = LEVELS["C1"]


class C2(Adopted):
    """One device in Lightning."""

    level = LEVELS["C2"]


class C3(Adopted):
    """Several devices."""

    level = LEVELS["C3"]


class C4(Adopted):
    """Endurance and faults."""

    level = LEVELS["C4"]
