"""Torch's own lazy device, whose TorchScript backend comes with every torch: real software that is not ours.

It records operations and computes them when a number is asked for. It is not CUDA-like: it has no module in torch, no
generator, no memory behind its storages, and a module that is moved to it gets new parameters.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    import torch


class LazyDevice(northbridge.Device):
    type = "lazy"
    module = ModuleType("lazy")  # torch has none
    out_of_memory = ("can't allocate memory", "not enough memory")  # of the CPU's allocator

    def count(self) -> int:
        return 1

    def select(self, index: int) -> None:
        if index:
            raise northbridge.DevicesError(f"torch's lazy device {index} is not there: there is one, 0")

    def synchronize(self) -> None:
        import torch._lazy

        torch._lazy.mark_step()
        torch._lazy.wait_device_ops()

    def label(self, index: int) -> str:
        return "the TorchScript backend of torch's lazy device"

    def autocast_dtypes(self) -> tuple[torch.dtype, ...]:
        return ()


class LazyBridge(northbridge.Bridge):
    def load(self) -> None:
        import torch._lazy.ts_backend

        if not LazyBridge._started:
            LazyBridge._started = True
            torch._lazy.ts_backend.init()

    _started = False

    def detect(self) -> int:
        return 1

    def after_backward(self) -> None:
        import torch._lazy

        torch._lazy.mark_step()

    after_step = after_evaluation = after_backward


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    claims = northbridge.Capabilities.of_level(
        "C2",
        auto=False,
        random_numbers=northbridge.no("its numbers come from the CPU's generator"),
        memory_stats=northbridge.no("it counts no memory"),
        pinned_memory=northbridge.no("torch knows no accelerator to pin memory for"),
        inference_mode=northbridge.no("views have no kernels there"),
    )
    return northbridge.Backend("lazy", LazyDevice(), None, LazyBridge(), claims)
