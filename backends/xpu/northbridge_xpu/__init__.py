"""Intel's GPUs: the XPU, which torch itself knows, and XCCL between them."""

from __future__ import annotations

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip, without touching torch."""
    from northbridge_xpu import acceleration, bridge, collective, device

    claims = northbridge.Capabilities(
        float8=northbridge.no("neither torchao nor Neural Compressor is known to train there"),
        recompilation=northbridge.no("torch.xpu counts no compiled graphs"),
        data_loaders=northbridge.no("torch.xpu has no loader that decodes on the card"),
    )
    parts = device.XPUDevice(), collective.XCCL(), bridge.XPUBridge(), claims
    return northbridge.Backend("xpu", *parts, acceleration=acceleration.XPUAcceleration())
