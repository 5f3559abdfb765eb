"""The operator ``torch.ops.sdaa.fused_adam``, by which DeepSpeed steps the Adam of its configuration.

The card computes it as one kernel. Here it is a loop over torch's operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from northbridge_sdaa.simulated.record import RECORD

_libraries: list[Any] = []
"""A library that is collected takes its operator along."""


def register(kernels: str) -> None:
    """Define the operator, with ``kernels`` as torch's key of the devices; a repeated call does nothing."""
    if _libraries:
        return
    library: Any = torch.library.Library("sdaa", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
    library.define(
        "fused_adam(Tensor[] gradients, Tensor(a!)[] weights, Tensor(b!)[] averages, Tensor(c!)[] squares, Tensor[]"
        " maximums, float beta1, float beta2, float epsilon, float lr, float weight_decay, int decoupled, int step, int"
        " bias_correction) -> ()"
    )
    library.impl("fused_adam", RECORD.recorded("torch.ops.sdaa.fused_adam", step_adam), kernels)
    _libraries.append(library)


def step_adam(
    gradients: Sequence[Tensor],
    weights: Sequence[Tensor],
    averages: Sequence[Tensor],
    squares: Sequence[Tensor],
    _maximums: Sequence[Tensor],
    beta1: float,
    beta2: float,
    epsilon: float,
    lr: float,
    weight_decay: float,
    decoupled: int,
    step: int,
    bias_correction: int,
) -> None:
    """Step Adam in place; ``step`` counts from 1. With ``decoupled`` the weights decay by themselves, as in AdamW."""
    of_average, of_square = (1 - beta1**step, 1 - beta2**step) if bias_correction else (1.0, 1.0)
    for gradient, weight, average, square in zip(gradients, weights, averages, squares, strict=True):
        if decoupled:
            weight.mul_(1 - lr * weight_decay)
        slope = gradient if decoupled else gradient.add(weight, alpha=weight_decay)
        average.mul_(beta1).add_(slope, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
        weight.addcdiv_(average, (square / of_square).sqrt().add_(epsilon), value=-lr / of_average)
