"""The simulated Teco cards pass the levels of the suite; where torch is patched for them, training too."""

from __future__ import annotations

from types import MappingProxyType

from tests.backends.simulated.proof import Proof, in_one_namespace_of_a_kind

from northbridge.conformance.level import Adopted, Level
from northbridge.conformance.levels import C4
from northbridge.conformance.tests.lightning.precision import Precision
from northbridge.conformance.tests.lightning.training import TrainingTests


class TestProof(Proof):
    pass


class TestC4(C4):
    backend = "sdaa"


class TestPatched(Adopted):
    level = Level(
        "patched", "Under a patched torch", in_one_namespace_of_a_kind(TrainingTests, Precision), devices=(1,)
    )
    backend = "sdaa"
    environ = MappingProxyType({"NORTHBRIDGE_SDAA_SIM_REGISTRATION": "patched"})
