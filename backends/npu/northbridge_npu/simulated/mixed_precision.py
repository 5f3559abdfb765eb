"""Autocast, and a gradient scaler whose ranks agree on an overflow."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed


class autocast(torch.autocast):
    """``torch.autocast("npu")``, in float16 unless another dtype is given."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """Scales as torch's does; the overflows of all ranks count for each of them."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def _unscale_grads_(self, *arguments: Any, **options: Any) -> dict[torch.device, torch.Tensor]:
        found: dict[torch.device, torch.Tensor] = super()._unscale_grads_(*arguments, **options)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for each in found.values():
                torch.distributed.all_reduce(each)
        return found

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Update the scale, unless it is not dynamic."""
        if self._dynamic or new_scale is not None:
            super().update(new_scale)
