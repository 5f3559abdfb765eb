"""The level of the conformance suite that needs no Intel GPU; CI runs the others where there is one."""

from northbridge_conformance.levels import C0


class TestC0(C0):
    backend = "xpu"
