"""What the chip has beyond torch's own operators."""

from __future__ import annotations

import northbridge


class SDAAAcceleration(northbridge.Acceleration):
    """DeepSpeed's accelerator, which the vendor contributed."""

    deepspeed_accelerator: str | None = "sdaa"
