"""Train in a custom loop through Fabric: accumulate, clip, schedule, load data in several ways, and join."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.algorithms.join import Join
from torch.nn.functional import cross_entropy

from northbridge_conformance.rank_programs.data_loaders import build_data
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.hosts import build, fabric
from northbridge_conformance.runs.models import SAMPLES, adam, loader, pictures
from northbridge_conformance.runs.scenario import Scenario

STEERED = ("plainly", "accumulating", "clipping by norm", "clipping by value", "by LBFGS", "on a schedule")
LOADED = ("pinned", "by workers", "iterable", "in batches of a sampler")
WAYS = (*STEERED, *LOADED)
"""The ways of training that run."""

_BATCH = 4


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the weights after each way, and the learning rate at its end."""
    fabric(scenario).launch(_loop, scenario.namespace, folder)


def _loop(host: Any, namespace: str, folder: Path) -> None:
    write(folder, "fabric", host.global_rank, {way: _train(host, namespace, way) for way in WAYS})


def _train(host: Any, namespace: str, way: str) -> dict[str, Any]:
    host.seed_everything(1)
    plain: Any = build("mlp")
    is_lbfgs = way == "by LBFGS"
    kind: Any = partial(torch.optim.LBFGS, lr=0.1, max_iter=3) if is_lbfgs else adam
    made = kind(plain.parameters())
    schedule = torch.optim.lr_scheduler.ExponentialLR(made, gamma=0.5 if way == "on a schedule" else 1.0)
    net, optimizer = host.setup(plain, made)
    data = (
        build_data(namespace, way, host) if way in LOADED else loader(shuffle=False, batch=SAMPLES if is_lbfgs else 8)
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
    write(folder, "fabric.join", host.global_rank, found)


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
