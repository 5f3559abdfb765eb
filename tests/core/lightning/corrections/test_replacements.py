"""Corrected functions of Lightning that have no test file of their own."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

import northbridge
from northbridge.lightning.namespaces import Namespace


class TestCompleteDevice:
    @pytest.mark.parametrize("asked", ["cpu_sim", "cpu_sim:1", "cpu"])
    def test_a_moved_module_says_where_its_tensors_are(self, trainer_namespace: Namespace, asked: str) -> None:
        northbridge.load("cpu_sim")
        module: Any = importlib.import_module(f"{trainer_namespace.name}.demos.boring_classes").BoringModel()

        module.to(asked)

        assert module.device == module.layer.weight.device


class TestStartGroup:
    @pytest.mark.parametrize("strategy", ["ddp", "fsdp", "model_parallel"])
    @pytest.mark.parametrize("device", [None, torch.device("cuda", 0)])
    def test_device_id_is_passed_if_there_is_one(
        self, namespace: Namespace, strategy: str, device: torch.device | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[dict[str, Any]] = []
        monkeypatch.setattr(torch.distributed, "init_process_group", lambda _name, **options: asked.append(options))
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")  # Lightning sets both again
        monkeypatch.setenv("MASTER_PORT", "12345")
        environment: Any = namespace.fabric_module("plugins.environments").LightningEnvironment()

        namespace.module(f"strategies.{strategy}")._init_dist_connection(environment, "gloo", 0, 2, device_id=device)

        assert asked == [{"rank": 0, "world_size": 2, **({} if device is None else {"device_id": device})}]
