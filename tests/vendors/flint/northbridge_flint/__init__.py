from __future__ import annotations

import os
from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    import torch


class FlintDevice(northbridge.Device):
    type = "flint"

    def root(self, index: int) -> torch.device:
        return super().root(0)

    def select(self, index: int) -> None:
        os.environ["FLINT_CARD"] = str(index)
        self.module.init()

    def label(self, index: int) -> str:
        return super().label(0)

    def memory_stats(self, index: int) -> dict[str, float]:
        return super().memory_stats(0)


class FlintCCL(northbridge.Collective):
    name = "flintccl"


class FlintBridge(northbridge.Bridge):
    def load(self) -> None:
        import torch_flint.plugin  # registers the "flint" device and the "flintccl" process group


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend(
        "flint",
        FlintDevice(),
        FlintCCL(),
        FlintBridge(),
        northbridge.Capabilities(
            bfloat16=northbridge.yes,
            float16=northbridge.no("the chip has no half precision"),
            float64=northbridge.no("the chip computes it as float32"),
        ),
    )
