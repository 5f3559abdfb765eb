"""What the vendor's software offers beyond torch's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity


class NPUAcceleration(northbridge.Acceleration):
    """Graphs, and DeepSpeed's accelerator, which the vendor contributed."""

    deepspeed_accelerator: str | None = "npu"

    def graph(self) -> northbridge.Graph:
        """Return an ``NPUGraph``; torch_npu registers none with ``torch.accelerator``."""
        from torch_npu.npu import NPUGraph

        graph: northbridge.Graph = NPUGraph()
        return graph

    def profiler_activity(self) -> ProfilerActivity | None:
        """Return the activity that torch_npu calls NPU; None for releases that have not put it into torch.

        Their times are in ``torch_npu.profiler`` alone.
        """
        import torch.profiler

        activity: ProfilerActivity | None = getattr(torch.profiler.ProfilerActivity, "NPU", None)
        return activity
