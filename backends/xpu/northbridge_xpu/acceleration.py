"""What the chip has beyond torch's own operators."""

from __future__ import annotations

import northbridge


class XPUAcceleration(northbridge.Acceleration):
    """DeepSpeed's accelerator for Intel GPUs."""

    deepspeed_accelerator: str | None = "xpu"
