"""A Trainer's strategies called by hand, with a model that is attached to no Trainer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from tests.core.lightning.conftest import Build

from northbridge.lightning.namespaces import Namespace

pytestmark = pytest.mark.usefixtures("chip")


@pytest.fixture
def namespace(trainer_namespace: Namespace) -> Namespace:
    """Each namespace with a Trainer."""
    return trainer_namespace


@pytest.fixture(autouse=True)
def process_group() -> Iterator[None]:
    """End the process group that a strategy leaves behind in this process."""
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("asked", "on_the_chip", "reads"),
    [
        ("auto", True, True),
        ("ddp", True, True),
        ("fsdp", False, False),  # its set-up moves the shards; Lightning's own reading asks for the Trainer
        ("model_parallel", True, False),  # Lightning reads into a model with shards alone
    ],
)
def test_strategy_with_unattached_model(
    namespace: Namespace, build: Build, tmp_path: Path, asked: str, on_the_chip: bool, reads: bool
) -> None:
    demos: Any = importlib.import_module(f"{namespace.name}.demos.boring_classes")
    kinds = {"model_parallel": namespace.module("strategies").ModelParallelStrategy}
    chosen = kinds[asked]() if asked in kinds else asked
    strategy = build(accelerator="cpu_sim", devices=1, strategy=chosen).strategy
    model = demos.BoringModel()
    strategy.connect(model)

    strategy.setup_environment()
    strategy.model_to_device()
    where = model.layer.weight.device.type
    strategy.on_train_start()
    strategy.save_checkpoint({"state_dict": model.state_dict(), "optimizer_states": []}, tmp_path / "some.ckpt")
    if reads:
        torch.testing.assert_close(
            strategy.load_checkpoint(tmp_path / "some.ckpt")["state_dict"],
            {name: each.cpu() for name, each in model.state_dict().items()},
        )
    strategy.teardown()

    strategy.connect(Mock(wraps=model))
    strategy.setup_environment()

    assert where == ("cpu_sim" if on_the_chip else "cpu")
    assert (tmp_path / "some.ckpt").exists()
