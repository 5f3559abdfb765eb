"""In a Fabric's loop of two ranks: gradients that are not synchronized, and ranks with different numbers of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.distributed.algorithms.join import Join
from torch.nn.functional import cross_entropy

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import build, fabric
from northbridge.conformance.runs.models import pictures
from northbridge.conformance.runs.scenario import Scenario

_BATCH = 4


def perform(scenario: Scenario, folder: Path) -> None:
    """Report weights, gradients in between, and how many batches each rank trained on."""
    fabric(scenario).launch(_loop, folder)


def _loop(host: Any, folder: Path) -> None:
    found = {"accumulated": _accumulate(host), "joined": _join(host)}
    write(folder, "joining", host.global_rank, found)


def _net(host: Any) -> tuple[Any, Any]:
    net: Any = build("mlp")
    optimizer: Any = torch.optim.SGD(net.parameters(), lr=0.1)
    net, optimizer = host.setup(net, optimizer)
    return net, optimizer


def _loss(host: Any, net: Any, number: int) -> Any:
    images, labels = pictures().tensors
    rows = slice(number * _BATCH, (number + 1) * _BATCH)
    return cross_entropy(net(images[rows].to(host.device)), labels[rows].to(host.device))


def _accumulate(host: Any) -> dict[str, str]:
    net, optimizer = _net(host)
    first, second = (2 * host.global_rank, 2 * host.global_rank + 1)
    with host.no_backward_sync(net):
        host.backward(_loss(host, net, first))
    gradients = {str(number): each.grad for number, each in enumerate(net.parameters())}
    between = fingerprint(gradients)
    host.backward(_loss(host, net, second))
    optimizer.step()
    return {"gradients in between": between, "weights": fingerprint(net.module.state_dict())}


def _join(host: Any) -> dict[str, Any]:
    net, optimizer = _net(host)
    numbers = range(2 + 2 * host.global_rank)  # the last rank has more than the first
    with Join([net._forward_module]):
        for number in numbers:
            optimizer.zero_grad()
            host.backward(_loss(host, net, number))
            optimizer.step()
    return {"batches": len(numbers), "weights": fingerprint(net.module.state_dict())}
