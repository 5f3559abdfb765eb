"""The simulated Gaudi passes what concerns training in lazy mode too: there the import changes more of torch."""

from __future__ import annotations

from types import MappingProxyType

from tests.backends.one_namespace import in_one_namespace_of_a_kind

from northbridge_conformance.levels import Adopted, Level
from northbridge_conformance.tests.lightning.checkpoints import CheckpointsOnTheCPU
from northbridge_conformance.tests.lightning.ddp import DistributedTraining
from northbridge_conformance.tests.lightning.fabric import FabricTraining
from northbridge_conformance.tests.lightning.hooks import BridgeHooks
from northbridge_conformance.tests.lightning.random_states import RandomStates
from northbridge_conformance.tests.lightning.training import TrainingTests


class TestLazy(Adopted):
    level = Level(
        "lazy",
        "Lazy mode",
        in_one_namespace_of_a_kind(
            TrainingTests,
            BridgeHooks,
            CheckpointsOnTheCPU,
            RandomStates,
            DistributedTraining,
            FabricTraining,
        ),
        devices=(1, 2),
    )
    backend = "hpu"
    environ = MappingProxyType({"PT_HPU_LAZY_MODE": "1"})
