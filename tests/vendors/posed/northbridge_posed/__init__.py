from __future__ import annotations

import os
from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    import torch


class PosedDevice(northbridge.Device):
    type = "posed"

    def root(self, index: int) -> torch.device:
        return super().root(0)

    def select(self, index: int) -> None:
        os.environ["POSED_CARD"] = str(index)
        self.module.init()

    def label(self, index: int) -> str:
        return super().label(0)

    def memory_stats(self, index: int) -> dict[str, float]:
        return super().memory_stats(0)


class PosedCCL(northbridge.Collective):
    name = "posedccl"


class PosedBridge(northbridge.Bridge):
    def load(self) -> None:
        import torch_posed.plugin  # registers the "posed" device and the "posedccl" process group


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend(
        "posed",
        PosedDevice(),
        PosedCCL(),
        PosedBridge(),
        northbridge.Capabilities(
            bfloat16=northbridge.yes,
            float16=northbridge.no("the chip has no half precision"),
            float64=northbridge.no("the chip computes it as float32"),
        ),
    )
