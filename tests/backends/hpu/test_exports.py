"""What Lightning exports of a model on the simulated Gaudi."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from tests.backends.exports import Exports, pytestmark as pytestmark


class TestExports(Exports):
    @pytest.fixture
    def device(self, hpu: ModuleType) -> torch.device:
        return torch.device("hpu")
