"""The most that was allocated is never forgotten."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        torch.get_device_module(right.Device.type).reset_peak_memory_stats = lambda device=None: None


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_peak_kept", bridge=Bridge)
