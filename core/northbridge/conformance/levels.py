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
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, cast

import pytest

from northbridge.capabilities import LEVEL_CLAIMS
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
from northbridge.conformance.suite import FaceSuite, Suite, require_devices
from northbridge.conformance.training import Training
from northbridge.conformance.transfers import Transfers
from northbridge.conformance.views import Views
from northbridge.conformance.waits import Waits


@dataclass(frozen=True)
class Level:
    """What is asked of a backend at once."""

    name: str
    title: str
    classes: tuple[type[Suite], ...]
    devices: tuple[int, ...] = ()
    """With how many devices a class runs that runs with several numbers of them."""

    least_cases: int = 0
    """How many tests have to run, for the level to say anything."""

    @property
    def claims(self) -> tuple[str, ...]:
        """What the backend has to claim and to prove, beside the claims of the levels below."""
        return LEVEL_CLAIMS[self.name]


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
                    Autocast,
                    Views,
                    Operations,
                    Layers,
                    Gradients,
                    RandomNumbers,
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
                    Groups,
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


class Adopted:
    """The tests of a level, for a backend that a subclass names; see the module's docstring."""

    level: ClassVar[Level]
    backend: ClassVar[str]
    environ: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Variables that are set for the processes of a run."""

    def __init_subclass__(cls) -> None:
        if "backend" in vars(cls):
            for suite in cls.level.classes:
                setattr(cls, f"Test{suite.__name__}", _adopt(suite, cls))


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


def _adopt(suite: type[Suite], adopted: type[Adopted]) -> type[Suite]:
    """Return a class of the tests of ``suite``, as pytest is to collect it within ``adopted``."""

    def backend(_self: Suite) -> str:
        return adopted.backend

    def environ(_self: Suite) -> dict[str, str]:
        return dict(adopted.environ)

    def machine(_self: Suite) -> None:
        if adopted.level.name != "C0":  # which is about machines without the chip too
            require_devices(adopted.backend, 1)

    namespace: dict[str, Any] = {
        "__doc__": suite.__doc__,
        "__module__": adopted.__module__,
        "__qualname__": f"{adopted.__qualname__}.Test{suite.__name__}",
        "backend": pytest.fixture(backend),
        "environ": pytest.fixture(environ),
        "machine": pytest.fixture(autouse=True)(machine),
        "level": adopted.level.name,
        "adopted_for": adopted.backend,
    }
    if issubclass(suite, FaceSuite):
        # Of a class that runs with one device and with several, those of the level; of others, all.
        runs = tuple(run for run in suite.runs if run[1] in adopted.level.devices)
        namespace["runs"] = runs or suite.runs
        if suite.claims_of_several and all(number > 1 for _, number in namespace["runs"]):
            namespace["claims"] = suite.claims_of_several
    made: Any = type(f"Test{suite.__name__}", (suite,), namespace)
    return cast("type[Suite]", made)
