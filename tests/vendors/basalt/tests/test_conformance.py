from northbridge.conformance.levels import C0, C1, C2, C3


class TestC0(C0):
    backend = "basalt"


class TestC1(C1):
    backend = "basalt"


class TestC2(C2):
    backend = "basalt"


class TestC3(C3):
    backend = "basalt"
