"""Corrected functions of Lightning that have no test file of their own."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import northbridge
from northbridge.lightning.namespaces import Namespace


class TestCompleteDevice:
    @pytest.mark.parametrize("asked", ["cpu_sim", "cpu_sim:1", "cpu"])
    def test_a_moved_module_says_where_its_tensors_are(self, trainer_namespace: Namespace, asked: str) -> None:
        northbridge.load("cpu_sim")
        module: Any = importlib.import_module(f"{trainer_namespace.name}.demos.boring_classes").BoringModel()

        module.to(asked)

        assert module.device == module.layer.weight.device
