"""The levels of Northbridge's conformance suite that one device can earn: C0 needs no driver."""

from northbridge_conformance.levels import C0, C1, C2


class TestC0(C0):
    backend = "vulkan"


class TestC1(C1):
    backend = "vulkan"


class TestC2(C2):
    backend = "vulkan"
