"""Torch's own lazy device, whose TorchScript backend comes with every torch: real software that nobody here wrote.

It records operations and computes them when a number is asked for. It is not CUDA-like: it has no module in torch, no
generator, no memory behind its storages, and a module that is moved to it gets new parameters.
"""

from types import ModuleType

import northbridge
import torch


class LazyDevice(northbridge.Device):
    type = "lazy"
    module = ModuleType("lazy")  # torch has none

    def count(self) -> int:
        return 1

    def root(self, index: int) -> torch.device:
        return torch.device("lazy", 0)

    def select(self, index: int) -> None:
        """Do nothing: there is one."""

    def synchronize(self) -> None:
        import torch._lazy

        torch._lazy.mark_step()
        torch._lazy.wait_device_ops()

    def label(self, index: int) -> str:
        return "the TorchScript backend of torch's lazy device"

    def memory_stats(self, index: int) -> dict[str, float]:
        return {}

    def random_state(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8)

    def set_random_state(self, state: torch.Tensor) -> None:
        """Do nothing: its numbers come from the CPU's generator."""

    def seed(self, seed: int) -> None:
        """Do nothing: its numbers come from the CPU's generator."""

    def autocast_dtypes(self) -> tuple[torch.dtype, ...]:
        return ()


class LazyCollective(northbridge.Collective):
    name = "gloo"

    def register(self) -> None:
        """Do nothing: torch brings it."""


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
    alone = northbridge.no("torch's lazy device has no communication library")
    return northbridge.Backend(
        "lazy",
        LazyDevice(),
        LazyCollective(),
        LazyBridge(),
        northbridge.Capabilities(
            auto=False,
            float32=northbridge.yes,
            autograd=northbridge.yes,
            views=northbridge.no("its views have no memory to share"),
            random_numbers=northbridge.no("its numbers come from the CPU's generator"),
            inference_mode=northbridge.no("views have no kernels there"),
            fit=northbridge.yes,
            checkpoint=northbridge.yes,
            resume=northbridge.yes,
            bfloat16=northbridge.no("torch.autocast does not know the device"),
            float16=northbridge.no("torch.autocast does not know the device"),
            sum_all_reduce=alone,
            broadcast=alone,
            all_gather=alone,
            barrier=alone,
            ddp_averaging=alone,
        ),
    )
