"""Take the first step of a training over all ranks, and on one device over the ranks' shards one after another.

Later steps are not compared: from the second on, a training amplifies the roundings of right chips, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from northbridge_conformance.rank_programs.ddp_gradients import batch
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.models import Mlp, seen
from northbridge_conformance.runs.ranks import Rank, attempt, meet
from northbridge_conformance.runs.scenario import Scenario

FROZEN = "1.weight"
"""The parameter that gets no gradient."""

DTYPES: Mapping[str, torch.dtype | None] = {"float32": None, "bfloat16": torch.bfloat16}
"""The dtype inside the model, and that of autocast."""

RATE = 0.2
_NORM = 0.25
"""The norm to which gradients are clipped."""

Numbers = dict[str, list[float]]
"""The numbers of each tensor, by its name."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the step of this rank; rank 0 also reports that of one device, in two orders of averaging."""
    rank = meet(scenario)
    found: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        found[name] = attempt(partial(_together, rank, dtype))
        if rank.number == 0:
            found[f"{name} alone"] = attempt(partial(_in_two_orders, rank, dtype))
    write(folder, "first_step", rank.number, found)


def compute_on_host(ranks: int, off: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """Return the step in float64 on the CPU.

    Each weight, input and output of a layer is ``off`` by that part of itself, up or down as ``seed`` draws it.
    """
    generator = torch.Generator().manual_seed(seed)

    def move(exact: Tensor) -> Tensor:
        up = torch.randint(0, 2, exact.shape, generator=generator) * 2 - 1
        return exact.double() * (1 + off * up)

    def move_result(_layer: nn.Module, _given: Any, result: Tensor) -> Tensor:
        return move(result)

    net = _build().double()
    for layer in net:
        layer.register_forward_hook(move_result)
    with torch.no_grad():
        for each in net.parameters():
            each.copy_(move(each))
    shards = [batch(0, ranks, range(number, number + 1)) for number in range(ranks)]
    return _alone(net, [(move(images), labels) for images, labels in shards], None)


def _build() -> Mlp:
    torch.manual_seed(3)
    net = Mlp()
    net.get_parameter(FROZEN).requires_grad_(False)
    return net


def _together(rank: Rank, dtype: torch.dtype | None) -> dict[str, Any]:
    net = _build().to(rank.device)
    model = DistributedDataParallel(net, **rank.collective.ddp_options())
    _backward(model, _shard(rank, rank.number), dtype)
    return _step(net)


def _in_two_orders(rank: Rank, dtype: torch.dtype | None) -> dict[str, Any]:
    shards = [_shard(rank, number) for number in range(rank.ranks)]
    net = _build().to(rank.device)
    _backward(net, shards[0], dtype)
    return {
        "reference": _alone(_build().to(rank.device), shards, dtype),
        "gate": _alone(_build().to(rank.device), shards[::-1], dtype),
        "first shard": _numbers(_gradients(net)),
    }


def _shard(rank: Rank, number: int) -> tuple[Tensor, Tensor]:
    images, labels = batch(0, rank.ranks, range(number, number + 1))
    return images.to(rank.device), labels.to(rank.device)


def _alone(
    net: Mlp,
    shards: Sequence[tuple[Tensor, Tensor]],
    dtype: torch.dtype | None,
) -> dict[str, Any]:
    """Take the step with the mean of the shards' gradients, added up in the order of ``shards``."""
    totals: dict[str, Tensor] = {}
    sizes: dict[str, Tensor] = {}
    for shard in shards:
        net.zero_grad()
        _backward(net, shard, dtype)
        for name, slope in _gradients(net).items():
            totals[name] = totals[name] + slope if name in totals else slope.clone()
            sizes[name] = sizes[name] + slope.abs() if name in sizes else slope.abs()
    for name, total in totals.items():
        net.get_parameter(name).grad = total / len(shards)
    return {**_step(net), "sizes": {name: (size / len(shards)).max().item() for name, size in sizes.items()}}


def _backward(net: nn.Module, shard: tuple[Tensor, Tensor], dtype: torch.dtype | None) -> None:
    images, labels = shard
    with torch.autocast(images.device.type, dtype=dtype) if dtype else nullcontext():
        loss = cross_entropy(net(images), labels)
    torch.autograd.backward(loss)


def _gradients(net: nn.Module) -> dict[str, Tensor]:
    return {name: each.grad for name, each in net.named_parameters() if each.grad is not None}


def _step(net: Mlp) -> dict[str, Any]:
    """Clip and step; return the norm before, the gradients, the updates, and the rest that is compared."""
    before = {name: each.detach().cpu().clone() for name, each in net.named_parameters()}
    gradients = _numbers(_gradients(net))
    norm = nn.utils.clip_grad_norm_(net.parameters(), _NORM).item()
    torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=RATE).step()
    after = {name: each.detach().cpu() for name, each in net.named_parameters()}
    return {
        "norm": norm,
        "gradients": gradients,
        "updates": _numbers({name: after[name] - before[name] for name in gradients}),
        "largest": {name: before[name].abs().max().item() for name in gradients},
        "frozen": torch.equal(after[FROZEN], before[FROZEN]),
        "weights": fingerprint(after),
        "scores": seen(net)["scores"],
    }


def _numbers(tensors: Mapping[str, Tensor]) -> Numbers:
    return {name: each.detach().cpu().flatten().tolist() for name, each in tensors.items()}
