"""The simulated Teco cards pass what concerns training where torch is patched for them, too."""

from __future__ import annotations

from types import MappingProxyType

from northbridge.conformance.level import Adopted, Level
from northbridge.conformance.tests.lightning.precision import Precision
from northbridge.conformance.tests.lightning.training import Training


class TestPatched(Adopted):
    level = Level("patched", "Under a patched torch", (Training, Precision), devices=(1,))
    backend = "sdaa"
    environ = MappingProxyType({"NORTHBRIDGE_SDAA_SIM_REGISTRATION": "patched"})
