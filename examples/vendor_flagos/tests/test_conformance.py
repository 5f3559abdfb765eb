"""The levels of Northbridge's conformance suite: C0 needs no chip, C3 needs several."""

from northbridge_conformance.levels import C0, C1, C2, C3


class TestC0(C0):
    backend = "flagos"


class TestC1(C1):
    backend = "flagos"


class TestC2(C2):
    backend = "flagos"


class TestC3(C3):
    backend = "flagos"
