"""Intel's GPUs: the XPU, which torch itself knows, and XCCL between them."""

from __future__ import annotations

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip, without touching torch."""
    from northbridge_xpu import acceleration, bridge, collective, device

    claims = northbridge.Capabilities(
        float64=northbridge.Claim("unknown", "Data Center cards compute it, many desktop cards do not"),
        float8=northbridge.no("neither torchao nor Neural Compressor is known to train there"),
        recompilation=northbridge.no("torch.xpu counts no compiled graphs"),
        data_loaders=northbridge.no("torch.xpu has no loader that decodes on the card"),
    )
    own = acceleration.XPUAcceleration()
    return northbridge.Backend(
        "xpu", device.XPUDevice(), collective.XCCL(), bridge.XPUBridge(), claims, acceleration=own
    )
