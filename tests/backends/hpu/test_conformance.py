"""The simulated Gaudi passes the levels of the suite: what ``make conformance`` does not show of it is here.

That runs C0 to C3 in eager mode. In lazy mode the vendor's import changes more of torch.
"""

from __future__ import annotations

from types import MappingProxyType

from northbridge.conformance.checkpoints import Checkpoints, CheckpointsOnTheCPU
from northbridge.conformance.collective_reductions import CollectiveReductions
from northbridge.conformance.distributed_training import DistributedTraining
from northbridge.conformance.fabric import FabricTraining
from northbridge.conformance.hooks import BridgeHooks
from northbridge.conformance.levels import C4, Adopted, Level
from northbridge.conformance.random_states import RandomStates
from northbridge.conformance.training import Training
from northbridge.conformance.transfers import Transfers


class TestC4(C4):
    backend = "hpu"


class TestLazy(Adopted):
    level = Level(
        "lazy",
        "Lazy mode",
        (
            Training,
            BridgeHooks,
            Checkpoints,
            CheckpointsOnTheCPU,
            RandomStates,
            CollectiveReductions,
            Transfers,
            DistributedTraining,
            FabricTraining,
        ),
        devices=(1, 2),
    )
    backend = "hpu"
    environ = MappingProxyType({"PT_HPU_LAZY_MODE": "1"})
