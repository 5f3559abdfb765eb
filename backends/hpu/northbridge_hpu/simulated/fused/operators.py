"""The operators ``torch.ops.hpu.…`` of the fused classes: the published schemas, with the published formulas.

The card computes each as one kernel. Here each is a loop over torch's operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from northbridge_hpu.simulated.mode import is_lazy
from northbridge_hpu.simulated.record import RECORD

Tensors = Sequence[Tensor]

_libraries: list[Any] = []
"""A library that is collected takes its operators along."""


_Namespace: Any = type(torch.ops.hpu)


class _Operators(_Namespace):  # type: ignore[misc]  # torch's class is Any
    """``torch.ops.hpu``, which says of an absent operator that it is not simulated."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            loader: Any = sys.modules["habana_frameworks"].__loader__
            raise AttributeError(loader.stand_ins.without(f"torch.ops.hpu.{name}")) from None


def register() -> None:
    """Define the operators of this mode; a repeated call does nothing."""
    if _libraries:
        return
    library: Any = torch.library.Library("hpu", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
    decay = "float weight_decay" if is_lazy() else "Tensor weight_decay, bool has_weight_decay"
    scales = "Tensor(d!)[]? exp_avg_scales=None, Tensor(e!)[]? exp_avg_sq_scales=None"
    _define(
        library,
        "optimizer_adamw(Tensor[] gradient_vec, Tensor(a!)[] weight_vec, Tensor(b!)[] exp_avg_vec, Tensor(c!)[]"
        f" exp_avg_sq_vec, Tensor neg_step_t, float beta1, float beta2, float epsilon, {decay}, {scales}) -> ()",
        step_adamw,
    )
    _define(library, "optimizer_lamb_fused_norm(Tensor[] grad, float max_norm) -> Tensor", lamb_norm)
    _define(
        library,
        "optimizer_lamb_phase1(Tensor[] gradients, Tensor[] weights, Tensor(a!)[] exp_avg, Tensor(b!)[] exp_avg_sq,"
        " Tensor(c!)[] out_weight_norms, Tensor(d!)[] out_adam_norms, Tensor(e!)[] out_adam_steps, Tensor"
        " clip_global_grad_norm, int grad_averaging, float beta1, float beta2, float epsilon, Tensor bias_correction1,"
        " Tensor bias_correction2, float weight_decay) -> ()",
        find_lamb_steps,
    )
    _define(
        library,
        "optimizer_lamb_phase2(Tensor(a!)[] weights, Tensor[] adam_norms, Tensor[] weight_norms, Tensor[] adam_steps,"
        " Tensor neg_step, float wd, bool use_lamb) -> ()",
        step_lamb,
    )
    _define(
        library,
        "optimizer_lars(Tensor[] params, Tensor(a!)[] grads, int[] skip_masks, float eeta, float weight_decay, float"
        " eps, Tensor lr) -> ()",
        scale_lars,
    )
    _define(
        library,
        "optimizer_resource_apply_momentum(Tensor(a!)[] params_momentum_buf_list, Tensor[] dp_list, float momentum)"
        " -> ()",
        apply_momentum,
    )
    _define(
        library,
        "optimizer_sgd(Tensor[] gradients, Tensor(a!)[] weights, Tensor lr, float wd, float mom, float damp, bool"
        " nesterov) -> ()",
        step_sgd,
    )
    _define(
        library,
        "optimizer_sgd_momentum(Tensor[] gradients, Tensor(a!)[] weights, Tensor(b!)[] momentum, Tensor epoch_num,"
        " Tensor lr, Tensor mom, float wd, float damp, bool nesterov) -> ()",
        step_sgd_momentum,
    )
    _define(
        library, "optimizer_ema(Tensor[] model_inputs, Tensor(a!)[] updated_ema, Tensor decay) -> ()", average_moving
    )
    _define(library, "fused_clip_norm(Tensor(a!)[] grad, Tensor max_norm, float norm_type) -> Tensor", clip_norm)
    _libraries.append(library)
    operators: Any = torch.ops.hpu
    operators.__class__ = _Operators


def _define(library: Any, schema: str, function: Callable[..., Any]) -> None:
    name = schema.partition("(")[0]
    library.define(schema)
    library.impl(name, RECORD.recorded(f"torch.ops.hpu.{name}", function), "HPU")


def step_adamw(
    gradients: Tensors,
    weights: Tensors,
    averages: Tensors,
    squares: Tensors,
    negative_step: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: Tensor | float,
    *_: Any,
) -> None:
    """Step AdamW: ``negative_step`` has the bias corrections, and epsilon is added to the uncorrected root."""
    for gradient, weight, average, square in zip(gradients, weights, averages, squares, strict=True):
        average.mul_(beta1).add_(gradient, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        weight.mul_(decay).add_(average / (square.sqrt() + epsilon) * negative_step)


def lamb_norm(gradients: Tensors, max_norm: float) -> Tensor:
    """Return the number that the gradients are divided by, so that their norm is at most ``max_norm``."""
    return (_norm(gradients) / max_norm).clamp(min=1.0).reshape(1)


def find_lamb_steps(
    gradients: Tensors,
    weights: Tensors,
    averages: Tensors,
    squares: Tensors,
    weight_norms: Tensors,
    step_norms: Tensors,
    steps: Tensors,
    divisor: Tensor,
    grad_averaging: int,
    beta1: float,
    beta2: float,
    epsilon: float,
    correction1: Tensor,
    correction2: Tensor,
    weight_decay: float,
) -> None:
    """Write Adam's step of each weight, and both norms. Epsilon is added to the corrected root."""
    for index, (gradient, weight) in enumerate(zip(gradients, weights, strict=True)):
        clipped = gradient / divisor
        average = averages[index].mul_(beta1).add_(clipped, alpha=1 - beta1 if grad_averaging else 1.0)
        square = squares[index].mul_(beta2).addcmul_(clipped, clipped, value=1 - beta2)
        step = (average / correction1) / ((square / correction2).sqrt() + epsilon)
        steps[index].copy_(step + weight_decay * weight)
        weight_norms[index].copy_(weight.norm().reshape(1))
        step_norms[index].copy_(steps[index].norm().reshape(1))


def step_lamb(
    weights: Tensors,
    step_norms: Tensors,
    weight_norms: Tensors,
    steps: Tensors,
    negative_rate: Tensor,
    weight_decay: float,
    use_lamb: bool,
) -> None:
    """Step each weight; the trust ratio is 1 without weight decay, unless ``use_lamb``."""
    for weight, step_norm, weight_norm, step in zip(weights, step_norms, weight_norms, steps, strict=True):
        ratio = torch.ones_like(weight_norm)
        if weight_decay != 0 or use_lamb:
            ratio = torch.where((step_norm > 0) & (weight_norm > 0), weight_norm / step_norm, ratio)
        weight.add_(step * negative_rate * ratio)


def scale_lars(
    weights: Tensors,
    gradients: Tensors,
    masks: Sequence[int],
    trust: float,
    weight_decay: float,
    epsilon: float,
    rate: Tensor,
) -> None:
    """Multiply each gradient by its learning rate. A mask of 0 leaves out the trust ratio and the weight decay."""
    for weight, gradient, mask in zip(weights, gradients, masks, strict=True):
        if not mask:
            gradient.mul_(rate)
            continue
        norm, of_gradient = weight.norm(), gradient.norm()
        ratio = norm * trust / (of_gradient + weight_decay * norm + epsilon)
        ratio = torch.where((norm > 0) & (of_gradient > 0), ratio, torch.ones_like(ratio))
        gradient.add_(weight, alpha=weight_decay).mul_(ratio * rate)


def apply_momentum(pairs: Tensors, gradients: Tensors, momentum: float) -> None:
    """Step each weight by its momentum; ``pairs`` has weights and momenta in turn."""
    for weight, buffer, gradient in zip(pairs[::2], pairs[1::2], gradients, strict=True):
        buffer.mul_(momentum).sub_(gradient)
        weight.add_(buffer)


def step_sgd(gradients: Tensors, weights: Tensors, rate: Tensor, weight_decay: float, *_: Any) -> None:
    """Step SGD without momentum."""
    for gradient, weight in zip(gradients, weights, strict=True):
        weight.sub_((gradient + weight_decay * weight) * rate)


def step_sgd_momentum(
    gradients: Tensors,
    weights: Tensors,
    buffers: Tensors,
    _steps: Tensor,
    rate: Tensor,
    momentum: Tensor,
    weight_decay: float,
    dampening: float,
    nesterov: bool,
) -> None:
    """Step SGD with momentum. Dampening applies to the first step too, since the buffers begin with zeros."""
    for gradient, weight, buffer in zip(gradients, weights, buffers, strict=True):
        decayed = gradient + weight_decay * weight
        buffer.mul_(momentum).add_(decayed, alpha=1 - dampening)
        weight.sub_((decayed + momentum * buffer if nesterov else buffer) * rate)


def average_moving(given: Tensors, averages: Tensors, decay: Tensor) -> None:
    """Move each average towards what is given."""
    for value, average in zip(given, averages, strict=True):
        average.copy_(average * decay + value * (1 - decay))


def clip_norm(gradients: Tensors, max_norm: Tensor, _norm_type: float) -> Tensor:
    """Clip the gradients by their 2-norm, which is returned; the last tensor is room for it, and no gradient."""
    *gradients, total = gradients
    total.copy_(_norm(gradients).reshape(1))
    factor = ((total + 1e-6).reciprocal() * max_norm).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return total.clone()


def _norm(tensors: Tensors) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in tensors]))
    return norm
