"""``FusedClipNorm`` and ``FusedEMA``."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from northbridge_hpu.simulated.markers import mark_step


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
        room = torch.zeros(1, dtype=self._dtype, device="hpu")
        with torch.no_grad():
            total: Tensor = torch.ops.hpu.fused_clip_norm([*gradients, room], self.max_norm_t, self.norm_type)
        mark_step()
        return total


class FusedEMA:
    """A moving average of a model's state, whose decay grows with the updates."""

    def __init__(self, model: nn.Module, decay: float = 0.9999, updates: int = 0) -> None:
        if decay < 0:
            raise ValueError(f"invalid decay: {decay}")
        self.ema = copy.deepcopy(model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model)
        self.ema.eval()
        self.updates = updates
        self._decay = decay
        self._given, self._averages = list(model.state_dict().values()), list(self.ema.state_dict().values())

    def decay(self, updates: int) -> float:
        """Return the decay after a number of updates."""
        return self._decay * (1 - math.exp(-updates / 2000))

    def update(self, model: nn.Module) -> None:
        """Move the average towards the model."""
        mark_step()
        self.updates += 1
        with torch.no_grad():
            decay = torch.tensor([self.decay(self.updates)], device="hpu")
            torch.ops.hpu.optimizer_ema(self._given, self._averages, decay)
        mark_step()

    def update_attr(
        self, model: nn.Module, include: Iterable[str] = (), exclude: Iterable[str] = ("process_group", "reducer")
    ) -> None:
        """Copy the public attributes of the model to the average: those in ``include``, or all, without ``exclude``."""
        for name, value in vars(model).items():
            if not name.startswith("_") and name not in exclude and (not include or name in include):
                setattr(self.ema, name, value)


FusedClipNorm.__module__ = "habana_frameworks.torch.hpex.normalization"
FusedEMA.__module__ = "habana_frameworks.torch.hpex.movingavrg"
