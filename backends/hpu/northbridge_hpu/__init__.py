"""Habana Gaudi: the HPU, and HCCL between HPUs."""

from __future__ import annotations

from typing import Any

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip; the vendor's software is not touched by that."""
    from northbridge_hpu.bridge import HPUBridge
    from northbridge_hpu.collective import HCCL
    from northbridge_hpu.device import HPUDevice

    return northbridge.Backend(
        "hpu",
        HPUDevice(),
        HCCL(),
        HPUBridge(),
        northbridge.Capabilities(
            bfloat16=northbridge.yes,
            float64=northbridge.no("it is stored as float64 and computed as float32 there"),
            fork=northbridge.no("the vendor's driver does not survive a fork"),
        ),
    )


def __getattr__(name: str) -> Any:
    # What lightning-Habana offered. Whoever only declares the chip does not pay for it.
    if "HPU" not in name:
        raise AttributeError(f"module 'northbridge_hpu' has no attribute {name!r}")
    from northbridge_hpu import trainer

    return getattr(trainer, name)
