"""The vendor's fused optimizers and its norm clip, and the operator of AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from northbridge_hpu.simulated.machine import RECORD
from northbridge_hpu.simulated.markers import is_lazy, mark_step

_libraries: list[Any] = []
"""A library that is collected takes its operator along."""


def define_operator() -> None:
    """Define ``torch.ops.hpu.optimizer_adamw`` of this mode; a repeated call does nothing."""
    if _libraries:
        return
    library: Any = torch.library.Library("hpu", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
    decay = "float weight_decay" if is_lazy() else "Tensor weight_decay, bool has_weight_decay"
    library.define(
        "optimizer_adamw(Tensor[] gradient_vec, Tensor(a!)[] weight_vec, Tensor(b!)[] exp_avg_vec, Tensor(c!)[]"
        f" exp_avg_sq_vec, Tensor neg_step_t, float beta1, float beta2, float epsilon, {decay}, Tensor(d!)[]?"
        " exp_avg_scales=None, Tensor(e!)[]? exp_avg_sq_scales=None) -> ()"
    )
    library.impl("optimizer_adamw", RECORD.recorded("torch.ops.hpu.optimizer_adamw", step_adamw), "HPU")
    _libraries.append(library)


def step_adamw(
    gradients: Sequence[Tensor],
    weights: Sequence[Tensor],
    averages: Sequence[Tensor],
    squares: Sequence[Tensor],
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


_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


class FusedAdamW(Optimizer):
    """AdamW whose bias corrections are a part of the step, and whose step and decay have the weights' dtype."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        moments_dtype: torch.dtype | tuple[torch.dtype, torch.dtype] | None = None,
    ) -> None:
        for name, value, wrong in (
            ("learning rate", lr, lr < 0),
            ("beta", betas[0], not 0 <= betas[0] < 1),
            ("beta", betas[1], not 0 <= betas[1] < 1),
            ("epsilon", eps, eps < 0),
        ):
            if wrong:
                raise ValueError(f"invalid {name}: {value}")
        dtypes = moments_dtype if isinstance(moments_dtype, tuple) else (moments_dtype, moments_dtype)
        if any(each in _FLOAT8 for each in dtypes):
            raise NotImplementedError("the simulated Gaudi keeps no moments in float8")
        self._moments = dtypes
        super().__init__(
            params,
            {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "bias_correction": bias_correction},
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step every weight that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            mark_step()
            self._step(group)
        mark_step()
        return loss

    def _step(self, group: dict[str, Any]) -> None:
        parameters = [each for each in group["params"] if each.grad is not None]
        if not parameters:
            return
        states = [self._state_of(each) for each in parameters]
        group["step"] = group.get("step", 0) + 1
        beta1, beta2 = group["betas"]
        size = group["lr"]
        if group.get("bias_correction", True):
            size *= math.sqrt(1 - beta2 ** group["step"]) / (1 - beta1 ** group["step"])
        first = parameters[0]
        decay: Any = 1 - group["weight_decay"] * group["lr"]
        decays = (decay,) if is_lazy() else (_rounded(decay, first), decay != 1.0)
        torch.ops.hpu.optimizer_adamw(
            [each.grad.detach() for each in parameters],
            [each.detach() for each in parameters],
            [each["exp_avg"] for each in states],
            [each["exp_avg_sq"] for each in states],
            _rounded(-size, first),
            beta1,
            beta2,
            group["eps"],
            *decays,
        )

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = 0  # stays 0: the group has the count
            for name, dtype in zip(("exp_avg", "exp_avg_sq"), self._moments, strict=True):
                state[name] = torch.zeros_like(parameter, dtype=dtype or parameter.dtype, requires_grad=False)
        return state


def _rounded(value: float, parameter: Tensor) -> Tensor:
    return torch.tensor([value], dtype=torch.float32).to(parameter.dtype).to(parameter.device)


class FusedSGD(Optimizer):
    """SGD whose learning rate is float32 in each step. Building it acquires the card."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0,
        weight_decay: float = 0,
        dampening: float = 0,
        nesterov: bool = False,
    ) -> None:
        _reject_negative(lr=lr, momentum=momentum, weight_decay=weight_decay, dampening=dampening)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("nesterov needs momentum, and no dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "weight_decay": weight_decay,
                "dampening": dampening,
                "nesterov": nesterov,
            },
        )
        torch.zeros(1, dtype=torch.int32, device="hpu")  # the vendor counts steps on the card
        mark_step()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step every weight that has a gradient. Dampening applies to the first step too: buffers begin with zeros."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            parameters = [each for each in group["params"] if each.grad is not None]
            if not parameters:
                continue
            mark_step()
            rate = torch.tensor([group["lr"]], dtype=torch.float32, device="hpu")
            momentum = group["momentum"]
            for parameter in parameters:
                weight = parameter.detach()
                change = parameter.grad.detach() + group["weight_decay"] * weight
                if momentum:
                    buffer = self._buffer_of(parameter).mul_(momentum).add_(change, alpha=1 - group["dampening"])
                    change = change + momentum * buffer if group["nesterov"] else buffer
                weight.sub_(change * rate)
            mark_step()
        return loss

    def _buffer_of(self, parameter: torch.Tensor) -> torch.Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros(parameter.shape, device="hpu")
        buffer: torch.Tensor = state["momentum_buffer"]
        return buffer


def _reject_negative(**values: float) -> None:
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"invalid {name}: {value}")


class FusedClipNorm:
    """Clips gradients by their 2-norm. Building it acquires the card; its limit has the first parameter's dtype."""

    def __init__(self, parameters: Iterable[Tensor], max_norm: float) -> None:
        self._dtype = next((each.dtype for each in parameters), torch.float32)
        self.max_norm_t = torch.tensor([max_norm]).to(self._dtype).to("hpu")
        self.norm_type = 2.0

    def clip_norm(self, parameters: Tensor | Iterable[Tensor]) -> Tensor:
        """Scale the gradients, and return their norm before, as a tensor of one number; 0.0 without gradients."""
        mark_step()
        given = [parameters] if isinstance(parameters, Tensor) else parameters
        gradients = [each.grad for each in given if each.grad is not None]
        if not gradients:
            return torch.tensor(0.0)
        with torch.no_grad():
            norms = torch.stack([torch.linalg.vector_norm(each) for each in gradients])
            total: Tensor = torch.linalg.vector_norm(norms).reshape(1).to(self._dtype)
            factor = ((total + 1e-6).reciprocal() * self.max_norm_t).clamp(max=1.0)
            for each in gradients:
                each.mul_(factor.to(each.dtype))
        mark_step()
        return total


FusedClipNorm.__module__ = "habana_frameworks.torch.hpex.normalization"
FusedAdamW.__module__ = FusedSGD.__module__ = "habana_frameworks.torch.hpex.optimizers"
