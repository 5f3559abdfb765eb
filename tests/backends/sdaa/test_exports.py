"""What Lightning exports of a model on the simulated Teco cards."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from tests.backends.exports import Exports, pytestmark as pytestmark


class TestExports(Exports):
    @pytest.fixture
    def device(self, sdaa: ModuleType) -> torch.device:
        return torch.device("sdaa")
