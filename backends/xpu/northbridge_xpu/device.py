"""An Intel GPU, as torch sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    import torch


class XPUDevice(northbridge.Device):
    """A tile of a card, or a whole card if ``ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE``."""

    type = "xpu"

    def autocast_dtypes(self) -> tuple[torch.dtype, ...]:
        import torch

        return torch.bfloat16, torch.float16
