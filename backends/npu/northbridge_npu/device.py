"""An Ascend NPU, as torch sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import northbridge
from northbridge_npu.cards import standing

if TYPE_CHECKING:
    import torch


class NPUDevice(northbridge.Device):
    """An NPU, whose module is shaped after ``torch.cuda``."""

    type = "npu"

    def autocast_dtypes(self) -> tuple[torch.dtype, ...]:
        # torch.npu's own list takes the first NPU in order to ask whether it has bfloat16: in each rank, the same one.
        import torch

        return torch.float16, torch.bfloat16

    def grad_scaler(self) -> torch.amp.GradScaler:
        """Return the vendor's scaler: with torch's, ranks may disagree on an overflow."""
        from torch_npu.npu.amp import GradScaler

        scaler: torch.amp.GradScaler = GradScaler()
        return scaler

    def capabilities(self, claimed: northbridge.Capabilities) -> northbridge.Capabilities:
        table = standing()
        older = table and table.without_bfloat16()
        if not older:
            return claimed
        reason = f"a {older} computes in float16 and float32 alone; 910B1 and later have it"
        return replace(claimed, bfloat16=northbridge.no(reason))
