"""``FusedLamb``: LAMB of the vendor's, which clips the gradients by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer

from northbridge_hpu.simulated.markers import mark_step


class FusedLamb(Optimizer):
    """LAMB with one count of steps for each group; ``adam_w_mode`` and ``fused`` change nothing."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float | None = 1.0,
        use_lamb: bool = False,
        fused: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLamb has no amsgrad")
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
        }
        super().__init__(params, defaults)
        self._set_none, self._always, self._norm_dtype = set_grad_none, use_lamb, dtype

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, or set them to zero; ``set_grad_none`` decides."""
        super().zero_grad(set_to_none=set_to_none and self._set_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Clip all gradients together, and step every weight that has one."""
        loss = None if closure is None else closure()
        gradients = [each.grad for group in self.param_groups for each in group["params"] if each.grad is not None]
        if not gradients:
            return loss
        divisor = torch.ones(1, device=gradients[0].device)
        if self.defaults["max_grad_norm"] is not None:
            seen = [each.to(self._norm_dtype or each.dtype) for each in gradients]
            divisor = torch.ops.hpu.optimizer_lamb_fused_norm(seen, self.defaults["max_grad_norm"])
        for group in self.param_groups:
            mark_step()
            self._step(group, divisor)
            mark_step()
        return loss

    def _step(self, group: dict[str, Any], divisor: torch.Tensor) -> None:
        parameters = [each for each in group["params"] if each.grad is not None]
        group["step"] = group.get("step", 0) + 1
        states = [self.state[each] for each in parameters]
        for parameter, state in zip(parameters, states, strict=True):
            if not state:
                state |= {name: torch.zeros_like(parameter).detach() for name in ("exp_avg", "exp_avg_sq")}
        norms = [[each.detach().new_empty(1) for each in parameters] for _ in range(2)]
        steps = [torch.empty_like(each).detach() for each in parameters]
        weights = [each.detach() for each in parameters]
        corrections = [
            torch.tensor(1 - beta ** group["step"] if group["bias_correction"] else 1.0, device=divisor.device)
            for beta in group["betas"]
        ]
        torch.ops.hpu.optimizer_lamb_phase1(
            [each.grad for each in parameters],
            weights,
            [each["exp_avg"] for each in states],
            [each["exp_avg_sq"] for each in states],
            *norms,
            steps,
            divisor,
            int(group["grad_averaging"]),
            *group["betas"],
            group["eps"],
            *corrections,
            group["weight_decay"],
        )
        rate = torch.tensor(-group["lr"], device=divisor.device)
        torch.ops.hpu.optimizer_lamb_phase2(
            weights, norms[1], norms[0], steps, rate, group["weight_decay"], self._always
        )


FusedLamb.__module__ = "habana_frameworks.torch.hpex.optimizers"
