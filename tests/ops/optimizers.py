"""torch's optimizers, each in the ways that it offers: one parameter after the other, all at once, fused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

import torch
from tests.ops.calls import compare_call
from tests.ops.entries import Outcome
from torch import Tensor
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree as pytree

STEPS = 4
SHAPES = ((9, 13), (5, 2))
"""Matrices, because Muon takes nothing else; one is larger than the vectors that kernels step at once."""

WAYS: dict[str, dict[str, bool]] = {
    "one by one": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "differentiable": {"differentiable": True},
}


def listed(dtypes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield name and dtype of each optimizer and way that the CPU is said to have."""
    for name, (info, _) in _by_name().items():
        for dtype in dtypes:
            of = getattr(torch, dtype)
            if of.is_floating_point or (of.is_complex and info.supports_complex):
                yield name, dtype


@cache
def _by_name() -> dict[str, tuple[Any, dict[str, bool]]]:
    entries: dict[str, tuple[Any, dict[str, bool]]] = {}
    for info in optim_db:
        if not info.supported_impls:
            entries[f"optim.{info.name}"] = (info, {})
            continue
        for way, arguments in WAYS.items():
            if way == "one by one" or (
                way in info.supported_impls and ("cpu" in info.supports_fused_on or way != "fused")
            ):
                entries[f"optim.{info.name}, {way}"] = (info, arguments)
    return entries


def run(name: str, dtype_name: str) -> Outcome:
    """Take a few steps with each of the optimizer's settings, and return what came of it."""
    info, way = _by_name()[name]
    dtype = getattr(torch, dtype_name)
    outcome = Outcome()
    torch.manual_seed(0)
    weights = [torch.randn(shape, dtype=dtype) for shape in SHAPES]
    gradients = [[torch.randn(shape, dtype=dtype) for shape in SHAPES] for _ in range(STEPS)]
    for setting in info.optim_inputs_func(device="cpu", dtype=dtype):
        step = partial(_take_steps, info, {**setting.kwargs, **way})
        compare_call(outcome, setting.desc, step, ((weights, gradients), {}), backward=False)
    return outcome


def _take_steps(info: Any, settings: dict[str, Any], weights: list[Tensor], gradients: list[list[Tensor]]) -> Any:
    parameters = [torch.nn.Parameter(weight.clone()) for weight in weights]
    optimizer = info.optim_cls(parameters, **settings)
    for given in gradients:
        for parameter, gradient in zip(parameters, given, strict=True):
            parameter.grad = gradient.to_sparse() if info.only_supports_sparse_grads else gradient.clone()
        optimizer.step((lambda: (parameters[0].abs() ** 2).sum()) if info.step_requires_closure else None)
    state = [
        {key: value for key, value in optimizer.state[parameter].items() if key != "step"} for parameter in parameters
    ]
    # Single numbers of the state stay on the CPU with some optimizers, on every device.
    place = parameters[0].device
    return [x.detach() for x in parameters], pytree.tree_map_only(Tensor, lambda x: x.to(place), state)
