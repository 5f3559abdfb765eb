"""The simulated chip: a real torch device whose memory and arithmetic are the host's."""

from __future__ import annotations

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip; nothing is compiled or loaded by that."""
    from northbridge_cpu_sim.bridge import SimBridge
    from northbridge_cpu_sim.collective import SimCCL
    from northbridge_cpu_sim.device import SimDevice

    return northbridge.Backend(
        "cpu_sim",
        SimDevice(),
        SimCCL(),
        SimBridge(),
        northbridge.Capabilities(
            simulated=True,
            bfloat16=northbridge.yes,
            float16=northbridge.yes,
            float64=northbridge.yes,
            sync_batchnorm=northbridge.no("it computes as the CPU does, and torch has SyncBatchNorm for GPUs alone"),
            fork=northbridge.yes,
        ),
    )
