"""Autocast and the gradient scaler under the vendor's names: torch's own, on the chip."""

from __future__ import annotations

from typing import Any

import torch


class autocast(torch.autocast):
    """``torch.autocast("sdaa")``, in float16 unless another dtype is given."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool | None = None
    ) -> None:
        super().__init__("sdaa", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("sdaa")``."""

    def __init__(self, **options: Any) -> None:
        super().__init__("sdaa", **options)
