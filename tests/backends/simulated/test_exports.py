"""Lightning's exports of a model on the chip."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from tests.backends.exports import Exports, pytestmark as pytestmark
from tests.backends.simulation.chip import SimChip


class TestExports(Exports):
    @pytest.fixture
    def device(self, sim: SimChip, loaded: ModuleType) -> torch.device:
        assert loaded.is_available()
        return torch.device(sim.name)
