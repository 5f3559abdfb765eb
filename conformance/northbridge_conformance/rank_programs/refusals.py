"""Attempt trainings that must raise an error, and report the error."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import _Classifier, build, combine, fabric, is_trainer, lightnings, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Try each case; a run that finishes is reported as "no error"."""
    strategies = lightnings(scenario, "strategies")
    cpu = torch.device("cpu")
    train = partial(_train, scenario, folder)
    attempts: dict[str, Callable[[], None]] = {
        "single device on the CPU": lambda: train(strategy=strategies.SingleDeviceStrategy(device=cpu)),
        "DDP on the CPU": lambda: train(strategy=strategies.DDPStrategy(parallel_devices=[cpu])),
        "tensor left on the CPU": lambda: train(model=_Forgetful(build("mlp"))),
        "group of gloo": lambda: _train_in_group(scenario, folder, "gloo"),
        "group of fake": lambda: _train_in_group(scenario, folder, "fake"),
    }
    for name, attempt in attempts.items():
        write(folder, f"refusals {name}", 0, _error_of(attempt))


def _train_in_group(scenario: Scenario, folder: Path, backend: str) -> None:
    if backend == "fake":
        importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers the backend
    where = (folder / f"{backend}.store").as_uri()
    torch.distributed.init_process_group(backend, init_method=where, rank=0, world_size=1)
    try:
        _train(scenario, folder, strategy="ddp")
    finally:
        torch.distributed.destroy_process_group()


def _error_of(attempt: Callable[[], None]) -> dict[str, str]:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001  # which one it was is what the test asks
        return {"type": type(error).__name__, "message": str(error)}
    return {"type": "", "message": "no error"}


class _Forgetful(torch.nn.Module):
    """Adds a tensor that does not move with the model."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.offset = [torch.zeros(5)]

    def forward(self, pictures: Tensor) -> Tensor:
        result: Tensor = self.inner(pictures) + self.offset[0]
        return result


def _train(scenario: Scenario, folder: Path, model: torch.nn.Module | None = None, strategy: Any = "auto") -> None:
    net = model if model is not None else build("mlp")
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder, strategy=strategy, max_epochs=1)
        host.fit(combine(scenario.namespace, _Classifier)(net, folder, "refusals fit"), loader())
    else:
        host = fabric(scenario, strategy=strategy)
        host.launch()
        module = host.setup_module(net)
        for pictures, _ in host.setup_dataloaders(loader()):
            module(pictures)
