"""Steer a loop of one's own through Fabric: accumulate, clip, close over a step, schedule, and load in several ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from northbridge.conformance.runs.duties.loading import build_data
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import build, fabric
from northbridge.conformance.runs.models import SAMPLES, adam, loader
from northbridge.conformance.runs.scenario import Scenario

STEERED = ("plainly", "accumulating", "clipping by norm", "clipping by value", "by LBFGS", "on a schedule")
LOADED = ("pinned", "by workers", "iterable", "in batches of a sampler")
WAYS = (*STEERED, *LOADED)
"""What is tried."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the weights that each way led to, and the learning rate at its end."""
    fabric(scenario).launch(_loop, scenario.namespace, folder)


def _loop(host: Any, namespace: str, folder: Path) -> None:
    write(folder, "steering", host.global_rank, {way: _train(host, namespace, way) for way in WAYS})


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
