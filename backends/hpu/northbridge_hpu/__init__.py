"""Habana Gaudi: the HPU, and HCCL between HPUs."""

from __future__ import annotations

import northbridge

_LIMITED_TYPES = "https://docs.habana.ai/en/latest/PyTorch/Model_Optimization_PyTorch/Best_Practices_for_Model_Training_on_Gaudi.html"
"""The vendor's page on data types with limited support, which lists neither float32 nor bfloat16."""


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip, without touching the vendor's software."""
    from northbridge_hpu.acceleration import HPUAcceleration
    from northbridge_hpu.bridge import HPUBridge
    from northbridge_hpu.collective import HCCL
    from northbridge_hpu.device import HPUDevice

    return northbridge.Backend(
        "hpu",
        HPUDevice(),
        HCCL(),
        HPUBridge(),
        northbridge.Capabilities.of_level(
            "C3",
            inference_mode=northbridge.yes,
            bfloat16=northbridge.yes,
            bfloat16_range=northbridge.Claim("unknown", f"no public source tells; see {_LIMITED_TYPES}"),
            float32_convolutions=northbridge.Claim("unknown", f"no public source tells; see {_LIMITED_TYPES}"),
            sharding=northbridge.yes,
            fsdp=northbridge.yes,
            sync_batchnorm=northbridge.yes,
            compile=northbridge.yes,
            fused_optimizers=northbridge.yes,
            float8=northbridge.yes,
            float64=northbridge.no("it is stored as float64 and computed as float32 there"),
            fork=northbridge.no("the vendor's driver does not survive a fork"),
            profiler=northbridge.yes,
            recompilation=northbridge.yes,
            data_loaders=northbridge.yes,
            deepspeed=northbridge.yes,
        ),
        acceleration=HPUAcceleration(),
    )


__getattr__ = northbridge.lazy_names(__name__, "northbridge_hpu.trainer")  # the names of lightning-Habana
