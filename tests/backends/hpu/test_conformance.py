"""The simulated Gaudi passes the levels of the suite, in eager mode; where training is concerned, in lazy mode too.

There the vendor's import changes more of torch.
"""

from __future__ import annotations

from types import MappingProxyType

from tests.backends.posed.proof import Proof

from northbridge.conformance.checkpoints import Checkpoints, CheckpointsOnTheCPU
from northbridge.conformance.collective_reductions import CollectiveReductions
from northbridge.conformance.distributed_training import DistributedTraining
from northbridge.conformance.fabric import FabricTraining
from northbridge.conformance.hooks import BridgeHooks
from northbridge.conformance.levels import C4, Adopted, Level
from northbridge.conformance.random_states import RandomStates
from northbridge.conformance.training import Training
from northbridge.conformance.transfers import Transfers


class TestProof(Proof):
    pass


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
