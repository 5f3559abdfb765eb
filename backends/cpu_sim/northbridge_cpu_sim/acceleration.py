"""What the simulated chip has beyond torch's own operators."""

from __future__ import annotations

from collections.abc import Mapping

import northbridge


class SimAcceleration(northbridge.Acceleration):
    """The simulated chip's float8, which is the CPU's, and its accelerator for DeepSpeed."""

    deepspeed_accelerator: str | None = "northbridge_cpu_sim.deepspeed.SimAccelerator"

    def float8_engines(self) -> Mapping[str, northbridge.Float8Engine]:
        return {"torchao": northbridge.TorchAO()}
