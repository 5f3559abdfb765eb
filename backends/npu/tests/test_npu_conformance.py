"""The levels of Northbridge's conformance suite, on real NPUs or, with ``NORTHBRIDGE_SIMULATE=npu``, simulated ones."""

from northbridge_conformance.levels import C0, C1, C2, C3


class TestC0(C0):
    backend = "npu"


class TestC1(C1):
    backend = "npu"


class TestC2(C2):
    backend = "npu"


class TestC3(C3):
    backend = "npu"
