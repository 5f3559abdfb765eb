"""Teco: the core groups of its AI cards, each an SDAA device, and TCCL between them."""

from __future__ import annotations

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip, without touching the vendor's software."""
    from northbridge_sdaa import acceleration, bridge, collective, device

    claims = northbridge.Capabilities.of_level(
        "C3",
        bfloat16=northbridge.yes,
        float16=northbridge.yes,
        fsdp=northbridge.yes,
        int64=northbridge.yes,
        float64=northbridge.Claim("unknown", "no public source shows that its products and convolutions work"),
        graphs=northbridge.no("no public source has one there, and DeepSpeed's accelerator for it makes none"),
        float8=northbridge.no("no public source has it there"),
        compile=northbridge.Claim("unknown", "no public source shows that its import registers teco_inductor"),
        fused_optimizers=northbridge.no("no public source has fused=True there; DeepSpeed alone calls fused_adam"),
        profiler=northbridge.yes,
        recompilation=northbridge.yes,
        deepspeed=northbridge.yes,
        data_loaders=northbridge.no("no public source has a loader there that decodes on the card"),
    )
    return northbridge.Backend(
        "sdaa",
        device.SDAADevice(),
        collective.TCCL(),
        bridge.SDAABridge(),
        claims,
        acceleration=acceleration.SDAAAcceleration(),
    )


__getattr__ = northbridge.lazy_names(__name__, "northbridge_sdaa.trainer")  # the names of lightning-Teco
