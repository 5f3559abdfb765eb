"""What keeps ``contract.toml`` honest."""

from __future__ import annotations

from tests.backends.simulated.contract import TheCode, TheRecord, TheStandIns


class TestTheCode(TheCode):
    pass


class TestTheStandIns(TheStandIns):
    pass


class TestTheRecord(TheRecord):
    pass
