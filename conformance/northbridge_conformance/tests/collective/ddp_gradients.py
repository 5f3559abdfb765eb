"""Gradients of ranks with different data, without Lightning."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.join import Join
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.comparison import tolerance
from northbridge_conformance.runs.models import Mlp, pictures
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.collective.ranks import (
    Claims,
    Facts,
    Rank,
    Ranks,
    attempt,
    may_reject,
    meet,
    rejections,
    results_of,
)

GRADIENTS = (0.1, 0.2, 0.0, 0.0)
"""The gradient that each rank passes to a communication hook."""

STEPS = 4
_ROWS = 3
"""The number of rows in each rank's part of a batch."""

_RATE = 0.2


def train_with_ddp(scenario: Scenario, folder: Path) -> None:
    """Report the weights, and the gradients after torch's communication hooks and its Join."""
    rank = meet(scenario)
    found = {
        "weights": attempt(partial(_train, rank)),
        "weights of bfloat16": attempt(partial(_train, rank, torch.bfloat16)),
        "first weights": attempt(partial(_begin_apart, rank)),
        "compressed gradient": attempt(partial(_compressed_gradient, rank)),
        "joined weight": attempt(partial(_joined_weight, rank)),
        "weights of branches": attempt(partial(_weights_of_branches, rank)),
    }
    write(folder, "train_with_ddp", rank.number, found)


def batch(step: int, ranks: int, among: range) -> tuple[Tensor, Tensor]:
    """Return the rows of a batch that belong to the ranks in ``among``, of ``ranks`` ranks in all."""
    images, labels = pictures(STEPS * ranks * _ROWS).tensors
    begin = step * ranks * _ROWS
    rows = slice(begin + among.start * _ROWS, begin + among.stop * _ROWS)
    return images[rows], labels[rows]


def weights_alone(ranks: int, among: range, factor: float = 1.0) -> list[float]:
    """Return the weights of one process on the CPU that trains on all rows of the ranks in ``among``.

    Its gradients are multiplied by ``factor``.
    """
    net = _build()
    optimizer = torch.optim.SGD(net.parameters(), lr=_RATE * factor)
    for step in range(STEPS):
        _step(net, optimizer, *batch(step, ranks, among))
    return _numbers(net)


def _build() -> Mlp:
    torch.manual_seed(3)
    return Mlp()


def _train(rank: Rank, dtype: torch.dtype = torch.float32) -> list[float]:
    net: Any = DistributedDataParallel(_build().to(rank.device, dtype))
    optimizer = torch.optim.SGD(net.parameters(), lr=_RATE)
    for step in range(STEPS):
        images, labels = batch(step, rank.ranks, range(rank.number, rank.number + 1))
        _step(net, optimizer, images.to(rank.device, dtype), labels.to(rank.device))
    return _numbers(net)


def _begin_apart(rank: Rank) -> Any:
    """Return the weights and buffers with which DDP starts; each rank initialized its own from another seed."""
    torch.manual_seed(rank.number)
    layer = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    torch.nn.init.normal_(layer.get_buffer("1.running_mean"))
    net = DistributedDataParallel(layer.to(rank.device), **rank.collective.ddp_options())
    return torch.cat([each.detach().cpu().flatten() for each in net.state_dict().values()]).tolist()


def _step(net: nn.Module, optimizer: Any, images: Tensor, labels: Tensor) -> None:
    optimizer.zero_grad()
    torch.autograd.backward(cross_entropy(net(images), labels))
    optimizer.step()


def _numbers(net: nn.Module) -> list[float]:
    return torch.cat([each.detach().cpu().flatten() for each in net.parameters()])[::7].tolist()


def _compressed_gradient(rank: Rank) -> float:
    """Return the gradient that the ranks average as float16."""
    model = _one_weight(rank)
    model.register_comm_hook(None, fp16_compress_hook)
    model(rank.tensor([[GRADIENTS[rank.number]]])).sum().backward()
    (weight,) = model.parameters()
    assert weight.grad is not None
    return weight.grad.item()


def _joined_weight(rank: Rank) -> float:
    """Train on two batches in rank 0 and on two more in each following rank; return the weight."""
    model = _one_weight(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with Join([model]):
        for number in range(2 + 2 * rank.number):
            optimizer.zero_grad()
            model(rank.tensor([[float(number + 1)]])).sum().backward()
            optimizer.step()
    (weight,) = model.parameters()
    dist.barrier()
    return weight.item()


class _Branches(nn.Module):
    """Two weights; each rank uses one of them."""

    def __init__(self, used: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(2))
        for weight in self.parameters():
            nn.init.zeros_(weight)
        self.used = used

    def forward(self, given: Tensor) -> Tensor:
        result: Tensor = self.branches[self.used](given)
        return result


def _weights_of_branches(rank: Rank) -> list[float]:
    """Take one step in which even ranks use the first of two weights, and odd ones the second; return both."""
    model = DistributedDataParallel(_Branches(rank.number % 2).to(rank.device), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    torch.autograd.backward(model(rank.tensor([[rank.number + 1.0]])).sum())
    optimizer.step()
    return [weight.item() for weight in model.parameters()]


def _one_weight(rank: Rank) -> DistributedDataParallel:
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    return DistributedDataParallel(layer.to(rank.device))


class GradientAveraging(Ranks):
    """torch's DDP on ranks with different data trains as one process with all data does."""

    advice = (
        "DDP adds gradients up over the vendor's process group and divides by the number of ranks. Look at the sum of"
        " large tensors, at the group's size, and at what the Collective's ddp_options() ask for."
    )
    step = "train_with_ddp"

    @shows("ddp_averaging")
    def test_weights_match_training_in_one_process(self, backend: str, ranks: Facts, devices: int) -> None:
        whole = weights_alone(devices, range(devices))

        for found in results_of(ranks, "weights"):
            assert found == pytest.approx(whole, abs=tolerance(backend), rel=0)

    @shows("ddp_averaging")
    @pytest.mark.parametrize("fault", ["no average", "a sum", "the average of twice as many", "the last rank left out"])
    def test_weights_differ_from_those_of_a_wrong_average(
        self, backend: str, ranks: Facts, devices: int, fault: str
    ) -> None:
        among, factor = {
            "no average": (range(1), 1.0),
            "a sum": (range(devices), float(devices)),
            "the average of twice as many": (range(devices), 0.5),
            "the last rank left out": (range(devices - 1), 1.0),
        }[fault]
        wrong = weights_alone(devices, among, factor)

        for found in results_of(ranks, "weights"):
            distances = [abs(ours - theirs) for ours, theirs in zip(found, wrong, strict=True)]
            assert max(distances) > max(1e-3, 3 * tolerance(backend))

    @shows("ddp_averaging")
    def test_ranks_have_bitwise_equal_weights(self, ranks: Facts, devices: int) -> None:
        found = results_of(ranks, "weights")

        assert found == found[:1] * devices

    @shows("ddp_averaging")
    def test_bfloat16_model_has_equal_weights_on_all_ranks(self, ranks: Facts, devices: int, claimed: Claims) -> None:
        if may_reject(claimed, "bfloat16") and rejections(ranks, "weights of bfloat16"):
            return
        found = results_of(ranks, "weights of bfloat16")

        assert found == found[:1] * devices

    @shows("ddp_averaging")
    def test_all_ranks_start_with_equal_weights(self, ranks: Facts, devices: int) -> None:
        found = results_of(ranks, "first weights")

        assert found == found[:1] * devices

    @shows("ddp_averaging")
    def test_parameters_unused_on_some_ranks_are_averaged(self, ranks: Facts, devices: int) -> None:
        weights = [-sum(range(first, devices + 1, 2)) / devices for first in (1, 2)]

        assert results_of(ranks, "weights of branches") == [weights] * devices

    def test_communication_hook_compresses_to_float16(self, ranks: Facts, devices: int, claimed: Claims) -> None:
        if may_reject(claimed, "float16") and rejections(ranks, "compressed gradient"):
            return
        given = GRADIENTS[:devices]
        halves = torch.tensor(given).half() / devices
        expected = (halves[0] + halves[1]).item()

        assert results_of(ranks, "compressed gradient") == [expected] * devices
        assert expected != pytest.approx(sum(given) / devices, abs=1e-6)  # the value without compression

    @shows("ddp_averaging")
    def test_join_handles_uneven_numbers_of_batches(self, ranks: Facts, devices: int) -> None:
        # Rank r has the batches 1 to 2 + 2r; each gradient is divided by the number of ranks, finished ones too.
        gradients = [sum(range(1, 3 + 2 * rank)) / devices for rank in range(devices)]

        assert results_of(ranks, "joined weight") == [-sum(gradients)] * devices
