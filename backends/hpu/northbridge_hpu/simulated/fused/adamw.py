"""``FusedAdamW``: AdamW of the vendor's, with one count of steps for each group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from northbridge_hpu.simulated.markers import mark_step
from northbridge_hpu.simulated.mode import is_lazy

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


FusedAdamW.__module__ = "habana_frameworks.torch.hpex.optimizers"
