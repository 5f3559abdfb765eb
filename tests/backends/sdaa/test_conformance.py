"""The simulated Teco cards pass the suite that every chip must pass; where torch is patched for them, training too."""

from __future__ import annotations

import pytest
from tests.backends.posed.suite import *  # noqa: F403 - each of its classes is one of this module
from tests.backends.posed.suite import OnTheChip

from northbridge.conformance.precision import Precision
from northbridge.conformance.training import Training


@pytest.fixture
def mode() -> dict[str, str]:
    """The usual way to make a device type of torch."""
    return {"NORTHBRIDGE_SDAA_SIM_REGISTRATION": "renamed"}


class UnderAPatchedTorch(OnTheChip):
    """Where the runs of a class find a torch that knows the chip."""

    @pytest.fixture
    def environ(self) -> dict[str, str]:
        return {"NORTHBRIDGE_SDAA_SIM_REGISTRATION": "patched"}


class TestTrainingUnderAPatchedTorch(UnderAPatchedTorch, Training):
    pass


class TestPrecisionUnderAPatchedTorch(UnderAPatchedTorch, Precision):
    pass
