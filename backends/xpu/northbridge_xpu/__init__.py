"""Intel's GPUs: the XPU, which torch itself knows, and XCCL between them."""

from __future__ import annotations

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip, without touching torch."""
    from northbridge_xpu import acceleration, bridge, collective, device

    shown = ["inference_mode", "bfloat16", "bfloat16_range", "float16", "int64", "float32_convolutions"]
    shown += ["sync_batchnorm", "sharding", "fsdp", "fused_optimizers", "deepspeed", "graphs"]
    claims = northbridge.Capabilities.of_level(
        "C3",
        **dict.fromkeys(shown, northbridge.yes),
        float8=northbridge.no("neither torchao nor Neural Compressor is known to train there"),
        recompilation=northbridge.no("torch.xpu counts no compiled graphs"),
        data_loaders=northbridge.no("torch.xpu has no loader that decodes on the card"),
        float64=northbridge.Claim("unknown", "Data Center cards compute it, many desktop cards do not"),
        compile=northbridge.Claim("unknown", "inductor needs Triton for Intel's GPUs, which no simulation has"),
        profiler=northbridge.Claim("unknown", "torch shows XPU's kernels only in a build for Intel's GPUs"),
    )
    parts = device.XPUDevice(), collective.XCCL(), bridge.XPUBridge(), claims
    return northbridge.Backend("xpu", *parts, acceleration=acceleration.XPUAcceleration())
