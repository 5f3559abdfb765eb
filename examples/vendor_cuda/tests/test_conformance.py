"""The levels of Northbridge's conformance suite: C0 needs no GPU, C3 needs several."""

from northbridge_conformance.levels import C0, C1, C2, C3


class TestC0(C0):
    backend = "nb_cuda"


class TestC1(C1):
    backend = "nb_cuda"


class TestC2(C2):
    backend = "nb_cuda"


class TestC3(C3):
    backend = "nb_cuda"
