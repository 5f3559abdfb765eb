"""Errors instead of a silent run on the CPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.hosts import _Classifier, build, combine, fabric, is_trainer, module_of, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Runs, in_each


def try_unsupported(scenario: Scenario, folder: Path) -> None:
    """Try each case; a run that finishes is reported as "no error"."""
    strategies = module_of(scenario, "strategies")
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
        write(folder, f"try_unsupported {name}", 0, _error_of(attempt))


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
        host.fit(combine(scenario.namespace, _Classifier)(net, folder, "try_unsupported fit"), loader())
    else:
        host = fabric(scenario, strategy=strategy)
        host.launch()
        module = host.setup_module(net)
        for pictures, _ in host.setup_dataloaders(loader()):
            module(pictures)


class Refusals(NamespaceSuite):
    """A run that would leave the chip is refused."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    advice = (
        "A tensor that is not on the chip must be an error of the vendor's kernels, and never be computed on the CPU."
    )

    def test_single_device_strategy_on_the_cpu_raises(self, backend: str, chip: RunResult) -> None:
        found = chip.only("try_unsupported single device on the CPU")

        assert found["type"] == "WrongDeviceError"
        assert f"accelerator={backend!r}, but the strategy's root device is 'cpu'" in found["message"]

    def test_ddp_strategy_on_the_cpu_raises(self, backend: str, chip: RunResult) -> None:
        found = chip.only("try_unsupported DDP on the CPU")

        assert found["type"] in ("MisconfigurationException", "ValueError")  # Lightning's own words
        assert f"accelerator set to {backend}" in found["message"]

    def test_tensor_left_on_the_cpu_raises(self, backend: str, chip: RunResult) -> None:
        found = chip.only("try_unsupported tensor left on the CPU")

        assert found["type"] == "RuntimeError"
        assert northbridge.get(backend).device.type in found["message"]

    @pytest.mark.parametrize("group", ["gloo", "fake"])
    def test_process_group_of_another_library_raises(self, backend: str, chip: RunResult, group: str) -> None:
        found = chip.only(f"try_unsupported group of {group}")

        own = northbridge.get(backend)
        assert found["type"] == "CollectiveError"
        assert f"{own.device.type!r} needs {own.collective.name!r}" in found["message"]
        assert group in found["message"]
