"""One device and several, in custom loops through Fabric."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.algorithms.join import Join
from torch.nn.functional import cross_entropy

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.hosts import build, fabric
from northbridge_conformance.runs.models import SAMPLES, adam, loader, pictures
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import (
    FABRICS,
    MODELS,
    Differences,
    EqualWeights,
    Runs,
    UsesSuite,
    in_each,
    one_and_several_devices,
    one_and_two_devices,
)
from northbridge_conformance.tests.lightning.data_loaders import build_data

STEERED = ("plainly", "accumulating", "clipping by norm", "clipping by value", "by LBFGS", "on a schedule")
LOADED = ("pinned", "by workers", "iterable", "in batches of a sampler")
WAYS = (*STEERED, *LOADED)
"""The ways of training that run."""

_BATCH = 4


def loop(scenario: Scenario, folder: Path) -> None:
    """Report the weights after each way, and the learning rate at its end."""
    fabric(scenario).launch(_loop, scenario, folder)


def _loop(host: Any, scenario: Scenario, folder: Path) -> None:
    name = scenario.accelerator
    pins = name == "cpu" or not northbridge.get(name).present_capabilities().pinned_memory.denied  # else it raises
    found = {way: _train(host, scenario.namespace, way, pins=pins) for way in WAYS}
    write(folder, "loop", host.global_rank, found)


def _train(host: Any, namespace: str, way: str, *, pins: bool) -> dict[str, Any]:
    host.seed_everything(1)
    plain: Any = build("mlp")
    is_lbfgs = way == "by LBFGS"
    kind: Any = partial(torch.optim.LBFGS, lr=0.1, max_iter=3) if is_lbfgs else adam
    made = kind(plain.parameters())
    schedule = torch.optim.lr_scheduler.ExponentialLR(made, gamma=0.5 if way == "on a schedule" else 1.0)
    net, optimizer = host.setup(plain, made)
    data = (
        build_data(namespace, way, host, pins=pins)
        if way in LOADED
        else loader(shuffle=False, batch=SAMPLES if is_lbfgs else 8)
    )
    batches = host.setup_dataloaders(data, use_distributed_sampler=way != "in batches of a sampler")
    for number, batch in enumerate(batches):
        is_between = way == "accumulating" and number % 2 == 0
        close = _closure(host, net, optimizer, batch, keeps_gradients=way == "accumulating" and not is_between)
        if is_lbfgs:
            optimizer.step(close)
            continue
        with host.no_backward_sync(net, enabled=is_between):
            close()
        if way == "clipping by norm":
            host.clip_gradients(net, optimizer, max_norm=0.1)
        if way == "clipping by value":
            host.clip_gradients(net, optimizer, clip_val=0.001)
        if not is_between:
            optimizer.step()
            schedule.step()
    return {"weights": fingerprint(plain.state_dict()), "rates": [group["lr"] for group in made.param_groups]}


def _closure(host: Any, net: Any, optimizer: Any, batch: Any, *, keeps_gradients: bool) -> Callable[[], torch.Tensor]:
    def close() -> torch.Tensor:
        if not keeps_gradients:
            optimizer.zero_grad()
        loss: torch.Tensor = cross_entropy(net(batch[0]), batch[1])
        host.backward(loss)
        return loss

    return close


def join(scenario: Scenario, folder: Path) -> None:
    """Report the weights, intermediate gradients, and the number of batches that each rank trained on."""
    fabric(scenario).launch(_part, folder)


def _part(host: Any, folder: Path) -> None:
    found = {"accumulated": _accumulate(host), "joined": _join(host)}
    write(folder, "join", host.global_rank, found)


def _set_up(host: Any) -> tuple[Any, Any]:
    net: Any = build("mlp")
    optimizer: Any = torch.optim.SGD(net.parameters(), lr=0.1)
    net, optimizer = host.setup(net, optimizer)
    return net, optimizer


def _loss_of(host: Any, net: Any, number: int) -> Any:
    images, labels = pictures().tensors
    rows = slice(number * _BATCH, (number + 1) * _BATCH)
    return cross_entropy(net(images[rows].to(host.device)), labels[rows].to(host.device))


def _accumulate(host: Any) -> dict[str, str]:
    net, optimizer = _set_up(host)
    first, second = (2 * host.global_rank, 2 * host.global_rank + 1)
    with host.no_backward_sync(net):
        host.backward(_loss_of(host, net, first))
    gradients = {str(number): each.grad for number, each in enumerate(net.parameters())}
    between = fingerprint(gradients)
    host.backward(_loss_of(host, net, second))
    optimizer.step()
    return {"gradients in between": between, "weights": fingerprint(net.module.state_dict())}


def _join(host: Any) -> dict[str, Any]:
    net, optimizer = _set_up(host)
    numbers = range(2 + 2 * host.global_rank)  # the last rank has more batches than the first
    with Join([net._forward_module]):
        for number in numbers:
            optimizer.zero_grad()
            host.backward(_loss_of(host, net, number))
            optimizer.step()
    return {"batches": len(numbers), "weights": fingerprint(net.module.state_dict())}


class FabricTraining(EqualWeights):
    """Fabric trains as Lightning's own does on as many CPU ranks."""

    runs: Runs = one_and_several_devices(*FABRICS)
    claims: tuple[str, ...] = ("fit",)
    claims_of_several: tuple[str, ...] = ("ddp_averaging",)
    advice = (
        "Where the Trainer's weights are right and a Fabric's are not, look at what the bridge does after a backward"
        " pass and after a step; else at the operations of the model that differs."
    )

    # Not the ConvNet: its batch norm statistics change its weights without any optimizer.
    @pytest.mark.parametrize("model", [each for each in MODELS if each != "convnet"])
    def test_an_optimizer_made_before_setup_trains_the_model(self, chip: RunResult, model: str) -> None:
        untrained = fingerprint(build(model).state_dict())

        assert all(rank["weights"] != untrained for rank in chip.ranks(f"train {model}"))

    def test_tied_weights_stay_tied(self, chip: RunResult) -> None:
        tied = len(list(build("tied").parameters()))

        assert chip.each("train tied", "parameters") == [tied] * len(chip.ranks("train tied"))

    def test_each_rank_trains_on_its_own_device(self, device: northbridge.Device, chip: RunResult) -> None:
        for index, rank in enumerate(chip.ranks("train mlp")):
            name = str(device.root(index))
            assert rank["host"] == rank["root device"] == rank["module device"] == name
            assert rank["parameter devices"] == [name]


class FabricLoops(UsesSuite):
    """Accumulation, clipping, closures, schedules and data of a custom loop work as on the CPU."""

    runs: Runs = one_and_two_devices(*FABRICS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "The way that differs names what to look at: clipping takes norms, LBFGS dot products, the loaders copies"
        " from pinned memory."
    )

    @pytest.mark.parametrize("way", WAYS)
    def test_weights_and_learning_rate_match_a_cpu_run(self, differences: Differences, way: str) -> None:
        assert differences("loop", way) == []

    @pytest.mark.parametrize("way", [way for way in STEERED if way != "plainly"])
    def test_option_changes_the_result(self, chip: RunResult, way: str) -> None:
        assert chip.each("loop", way) != chip.each("loop", "plainly")


class GradientSync(UsesSuite):
    """Gradients are reduced when the loop asks for it, and ranks may run out of batches at different times."""

    runs: Runs = in_each(FABRICS[0], devices=(2,))
    claims: tuple[str, ...] = ("ddp_averaging",)
    advice = "Join sends zeros for ranks that are done: look at all_reduce of numbers of steps, and at broadcast."

    def test_no_backward_sync_delays_gradient_averaging(self, chip: RunResult, differences: Differences) -> None:
        found = chip.each("join", "accumulated")

        assert differences("join", "accumulated") == []
        assert found[0]["gradients in between"] != found[1]["gradients in between"]
        assert found[0]["weights"] == found[1]["weights"]

    def test_join_handles_uneven_numbers_of_batches(self, chip: RunResult, differences: Differences) -> None:
        found = chip.each("join", "joined")

        assert differences("join", "joined") == []
        assert [each["batches"] for each in found] == [2, 4]
        assert found[0]["weights"] == found[1]["weights"]
