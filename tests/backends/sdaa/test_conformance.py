"""The simulated Teco cards pass the levels of the suite: what ``make conformance`` does not show of them is here.

That runs C0 to C3 where the vendor's software names its device as torch has it; here torch is patched for them.
"""

from __future__ import annotations

from types import MappingProxyType

from northbridge.conformance.levels import C4, Adopted, Level
from northbridge.conformance.precision import Precision
from northbridge.conformance.training import Training


class TestC4(C4):
    backend = "sdaa"


class TestPatched(Adopted):
    level = Level("patched", "Under a patched torch", (Training, Precision), devices=(1,))
    backend = "sdaa"
    environ = MappingProxyType({"NORTHBRIDGE_SDAA_SIM_REGISTRATION": "patched"})
