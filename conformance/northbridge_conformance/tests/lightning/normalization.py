"""Batch norm over the batches of all ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import northbridge
from northbridge.discovery.declared import get
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import tolerance
from northbridge_conformance.runs.hosts import _Classifier, build, combine, fabric, is_trainer, trainer
from northbridge_conformance.runs.models import loader, pictures
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Runs, in_each
from northbridge_conformance.tests.lightning.training import train_epoch

_BATCH = 8
"""Each rank's batch size. It is the rank's whole data, so Lightning's shuffling does not change the global batch."""

_EPOCHS = 8
_RATE = 0.1


def train_normalized(scenario: Scenario, folder: Path) -> None:
    """Report the distance of each way's weights and statistics from those of one process."""
    if is_trainer(scenario.namespace):
        _fit(scenario, folder)
    else:
        fabric(scenario).launch(_loop, scenario.accelerator, folder)


def _fit(scenario: Scenario, folder: Path) -> None:
    found: dict[str, Any] = {}
    convert_layers: Any = nn.SyncBatchNorm.convert_sync_batchnorm
    ways: dict[str, tuple[dict[str, bool], Any]] = {
        "argument": ({"sync_batchnorm": True}, lambda net: net),
        "torch's layers": ({}, convert_layers),
        "nothing": ({}, lambda net: net),
    }
    for way, (arguments, convert) in ways.items():
        module = combine(scenario.namespace, _Normalizing)(convert(build("convnet")), folder, "train_normalized fit")
        layer = type(module.net[1]).__name__
        host = trainer(scenario, folder, max_epochs=_EPOCHS, **arguments)
        host.fit(module, loader(samples=_BATCH * host.world_size, shuffle=False))
        kept = type(module.net[1]).__name__ == layer
        found[way] = {**_distance(module.net, host.world_size), "layer kept": kept}
        found["uneven"] = found.get("uneven") or _uneven(scenario.accelerator, host.strategy.root_device)
    write(folder, "train_normalized", torch.distributed.get_rank(), found)


def _loop(host: Any, backend: str, folder: Path) -> None:
    convert_layers: Any = nn.SyncBatchNorm.convert_sync_batchnorm
    net: Any = convert_layers(build("convnet"))
    net, optimizer = host.setup(net, torch.optim.SGD(net.parameters(), lr=_RATE))
    batches = host.setup_dataloaders(loader(samples=_BATCH * host.world_size, shuffle=False))
    for _ in range(_EPOCHS):
        train_epoch(host, net, optimizer, batches)
    found = {"torch's layers": _distance(net.module, host.world_size), "uneven": _uneven(backend, host.device)}
    write(folder, "train_normalized", host.global_rank, found)


def _distance(net: nn.Module, ranks: int) -> dict[str, float]:
    """Return the distance of ``net`` from a model that the CPU trained on the whole batch."""
    whole = build("convnet").train()
    optimizer = torch.optim.SGD(whole.parameters(), lr=_RATE)
    for _ in range(_EPOCHS):
        for images, labels in loader(samples=_BATCH * ranks, shuffle=False, batch=_BATCH * ranks):
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(whole(images), labels))
            optimizer.step()
    found = dict(net.state_dict())
    return {
        kind: max(_largest(found[name], tensor) for name, tensor in tensors)
        for kind, tensors in (("weights", whole.named_parameters()), ("statistics", whole.named_buffers()))
    }


def _uneven(backend: str, device: torch.device) -> dict[str, float]:
    """Normalize batches of different sizes, the first one empty; return the distances from one process."""
    from northbridge.lightning.plugins.layer_sync import synchronize

    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(5)
    images = pictures(sum(3 * each for each in range(ranks))).tensors[0].repeat(1, 4, 1, 1)
    begin = sum(3 * each for each in range(rank))
    parts = slice(begin, begin + 3 * rank)
    wanted = torch.randn_like(images)
    layer = nn.BatchNorm2d(4, momentum=None)
    whole = nn.BatchNorm2d(4, momentum=None)

    def normalize(layer: nn.Module, images: Tensor, wanted: Tensor) -> tuple[Tensor, ...]:
        leaf = images.clone().requires_grad_()
        normalized: Tensor = layer(leaf)
        torch.autograd.backward((normalized * wanted).sum())
        assert leaf.grad is not None
        return normalized.detach(), leaf.grad

    expected, its_gradient = normalize(whole, images, wanted)
    layer = layer.to(device)
    synchronize(layer, backend)
    found, gradient = normalize(layer, images[parts].to(device), wanted[parts].to(device))
    assert layer.weight.grad is not None
    total = get(backend).require_collective().all_reduce(layer.weight.grad.clone())
    pairs = {
        "outputs": (found, expected[parts]),
        "gradients": (gradient, its_gradient[parts]),
        "gradients of the weight": (total, whole.weight.grad),
        "statistics": (layer.running_var, whole.running_var),
    }
    return {name: _largest(ours, theirs) for name, (ours, theirs) in pairs.items()}


def _largest(ours: Any, theirs: Any) -> float:
    distance = (ours.detach().cpu() - theirs.detach()).abs()
    return float(distance.max()) if distance.numel() else 0.0


class _Normalizing(_Classifier):
    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=_RATE)


_DIFFERENT = 1e-3
"""The least distance of weights and statistics, of a size of 1, from those of other batches."""


def _tolerance(backend: str) -> float:
    """Return the tolerance against one process: sums have another order, and a real chip also rounds differently."""
    return 1e-6 if northbridge.get(backend).capabilities.exact else tolerance(backend)


class _SyncBatchNorm(NamespaceSuite):
    claims: tuple[str, ...] = ("sync_batchnorm",)
    advice = "Northbridge's layer takes sums and one all_gather: look at these, and at sums over several dimensions."


class SyncBatchNormTests(_SyncBatchNorm):
    """Two ranks train as one process with the whole batch does, and the model keeps its layers."""

    runs: Runs = in_each(*TRAINERS, devices=(2,))

    @pytest.mark.parametrize("way", ["argument", "torch's layers"])
    def test_weights_and_statistics_match_the_whole_batch(self, backend: str, chip: RunResult, way: str) -> None:
        for found in chip.each("train_normalized", way):
            assert max(found["weights"], found["statistics"]) < _tolerance(backend)
            assert found["layer kept"]

    def test_plain_batch_norm_differs_from_the_whole_batch(self, chip: RunResult) -> None:
        for found in chip.each("train_normalized", "nothing"):
            assert min(found["weights"], found["statistics"]) > _DIFFERENT


class UnevenSyncBatchNorm(_SyncBatchNorm):
    """Synchronized batch norm works with batches of different sizes on the ranks, also empty ones."""

    runs: Runs = in_each(*TRAINERS, *FABRICS, devices=(2,))

    def test_outputs_and_statistics_match_the_whole_batch(self, chip: RunResult) -> None:
        for found in chip.each("train_normalized", "uneven"):
            assert max(found.values()) < 1e-5  # a weight's gradients are sums of hundreds


class FabricSyncBatchNorm(_SyncBatchNorm):
    """A model with torch's layers trains in a Fabric as one process with the whole batch does."""

    runs: Runs = in_each(*FABRICS, devices=(2,))

    def test_weights_and_statistics_match_the_whole_batch(self, backend: str, chip: RunResult) -> None:
        for found in chip.each("train_normalized", "torch's layers"):
            assert max(found["weights"], found["statistics"]) < _tolerance(backend)
