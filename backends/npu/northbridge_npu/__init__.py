"""Huawei Ascend: its NPUs, and HCCL between them."""

from __future__ import annotations

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip, without touching the vendor's software."""
    from northbridge_npu import acceleration, bridge, collective, device

    claims = northbridge.Capabilities.of_level(
        "C3",
        bfloat16=northbridge.yes,
        float16=northbridge.yes,
        int64=northbridge.yes,
        fsdp=northbridge.yes,
        sharding=northbridge.yes,
        sync_batchnorm=northbridge.yes,
        float64=northbridge.Claim("unknown", "torch_npu casts it to float32; whether it is computed is not known"),
        deepspeed=northbridge.yes,
        float32_convolutions=northbridge.Claim("unknown", "a switch of torch.npu.conv allows HF32, which is shorter"),
        compile=northbridge.Claim("unknown", "npugraph_ex was found in torch_npu's wheel, and never run"),
        fused_optimizers=northbridge.Claim("unknown", "torch_npu.optim has classes of its own, which were never run"),
        float8=northbridge.no("neither torchao nor Neural Compressor is known to train there"),
        data_loaders=northbridge.no("no public source has a loader there that decodes on the card"),
    )
    return northbridge.Backend(
        "npu",
        device.NPUDevice(),
        collective.HCCL(),
        bridge.NPUBridge(),
        claims,
        acceleration=acceleration.NPUAcceleration(),
    )
