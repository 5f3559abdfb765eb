"""``FusedSGD``, and the vendor's optimizers that scale a gradient by a learning rate of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from northbridge_hpu.simulated.markers import mark_step


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
        self._count = torch.zeros(1, dtype=torch.int32, device="hpu")
        mark_step()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step every weight that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            parameters = [each for each in group["params"] if each.grad is not None]
            if not parameters:
                continue
            mark_step()
            gradients, weights = [each.grad for each in parameters], [each.detach() for each in parameters]
            rate = torch.tensor([group["lr"]], dtype=torch.float32, device="hpu")
            decay, dampening, nesterov = group["weight_decay"], group["dampening"], group["nesterov"]
            if group["momentum"] == 0:
                torch.ops.hpu.optimizer_sgd(gradients, weights, rate, decay, 0.0, dampening, nesterov)
            else:
                momentum = torch.tensor(group["momentum"], device="hpu")
                torch.ops.hpu.optimizer_sgd_momentum(
                    gradients,
                    weights,
                    [self._buffer_of(each) for each in parameters],
                    self._count,
                    rate,
                    momentum,
                    decay,
                    dampening,
                    nesterov,
                )
            mark_step()
        return loss

    def _buffer_of(self, parameter: torch.Tensor) -> torch.Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros(parameter.shape, device="hpu")
        buffer: torch.Tensor = state["momentum_buffer"]
        return buffer


class FusedResourceApplyMomentum(Optimizer):
    """Momentum for gradients that ``FusedLars`` has multiplied by the learning rate; it reads none by itself."""

    def __init__(
        self, params: Iterable[Any], lr: float, momentum: float = 0, weight_decay: float = 0, nesterov: bool = False
    ) -> None:
        _reject_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and momentum <= 0:
            raise ValueError("nesterov needs momentum")
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step every weight that has a gradient. The first step adds the gradient, as the vendor's does."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            parameters = [each for each in group["params"] if each.grad is not None]
            mark_step()
            if parameters and self.state[parameters[0]].get("momentum_buffer") is None:
                for each in parameters:
                    self.state[each]["momentum_buffer"] = each.grad.clone() if group["momentum"] != 0 else None
                    each.add_(each.grad)
            elif parameters:
                pairs = [tensor for each in parameters for tensor in (each, self.state[each]["momentum_buffer"])]
                gradients = [each.grad for each in parameters]
                torch.ops.hpu.optimizer_resource_apply_momentum(pairs, gradients, group["momentum"])
            mark_step()
        return loss


class FusedLars(Optimizer):
    """LARS around another optimizer: multiplies the gradients by their learning rates before the other one steps."""

    def __init__(self, optimizer: Optimizer, skip_mask: Sequence[int], eeta: float = 0.001, eps: float = 1e-8) -> None:
        defaults = {**optimizer.defaults, "skip_mask": skip_mask, "eeta": eeta, "eps": eps}
        self.optim = optimizer
        super().__init__(optimizer.param_groups, defaults)
        self.state = optimizer.state

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Drop the gradients of the other optimizer, or set them to zero."""
        self.optim.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Scale the gradients, and let the other optimizer step without its weight decay."""
        decays = [group.get("weight_decay", 0) for group in self.optim.param_groups]
        for group, decay in zip(self.optim.param_groups, decays, strict=True):
            group["weight_decay"] = 0
            chosen = [
                (each, mask)
                for each, mask in zip(group["params"], self.defaults["skip_mask"], strict=False)
                if each.grad is not None
            ]
            if chosen:
                mark_step()
                torch.ops.hpu.optimizer_lars(
                    [each.detach() for each, _ in chosen],
                    [each.grad for each, _ in chosen],
                    [int(mask) for _, mask in chosen],
                    self.defaults["eeta"],
                    decay,
                    self.defaults["eps"],
                    torch.tensor(group["lr"], device="hpu"),
                )
                mark_step()
        self.optim.step()
        for group, decay in zip(self.optim.param_groups, decays, strict=True):
            group["weight_decay"] = decay


class FusedAdagrad(Optimizer):
    """Adagrad with the learning rate that it was built with: a scheduler changes nothing."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
    ) -> None:
        _reject_negative(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        defaults = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        super().__init__(params, {**defaults, "initial_accumulator_value": initial_accumulator_value})
        for group in self.param_groups:
            group |= {"lr_t": torch.tensor([lr], device="hpu"), "step_t": torch.zeros(1, device="hpu")}
            for each in group["params"]:
                self.state[each]["sum"] = torch.full_like(each, initial_accumulator_value).detach()
        mark_step()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step every weight that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            mark_step()
            rate = group["lr_t"] / (1 + group["step_t"] * group["lr_decay"])
            group["step_t"] += 1
            for each in (each for each in group["params"] if each.grad is not None):
                gradient = each.grad + group["weight_decay"] * each
                squares = self.state[each]["sum"].addcmul_(gradient, gradient)
                each.sub_(gradient / (squares.sqrt() + group["eps"]) * rate)
        return loss


def _reject_negative(**values: float) -> None:
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"invalid {name}: {value}")


for _each in (FusedSGD, FusedResourceApplyMomentum, FusedLars, FusedAdagrad):
    _each.__module__ = "habana_frameworks.torch.hpex.optimizers"
