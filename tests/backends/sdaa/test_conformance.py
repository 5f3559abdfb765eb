"""The simulated Teco cards pass what concerns training where torch is patched for them, too."""

from __future__ import annotations

from types import MappingProxyType

from tests.backends.one_namespace import in_one_namespace_of_a_kind

from northbridge_conformance.levels import Adopted, Level
from northbridge_conformance.tests.lightning.precision import Precision
from northbridge_conformance.tests.lightning.training import TrainingTests


class TestPatched(Adopted):
    level = Level(
        "patched", "Under a patched torch", in_one_namespace_of_a_kind(TrainingTests, Precision), devices=(1,)
    )
    backend = "sdaa"
    environ = MappingProxyType({"NORTHBRIDGE_SDAA_SIM_REGISTRATION": "patched"})
