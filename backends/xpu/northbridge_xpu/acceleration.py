"""What the chip has beyond torch's own operators."""

import northbridge


class XPUAcceleration(northbridge.Acceleration):
    """DeepSpeed's accelerator for Intel GPUs."""

    deepspeed_accelerator: str | None = "xpu"
