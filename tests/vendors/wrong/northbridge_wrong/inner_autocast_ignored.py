"""Autocast within autocast keeps the outer dtype."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        choose = torch.set_autocast_dtype

        def outermost(device, dtype):
            if device != right.Device.type or torch.autocast_increment_nesting() == 1:
                choose(device, dtype)
            torch.autocast_decrement_nesting()

        torch.set_autocast_dtype = outermost


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_inner_autocast_ignored", bridge=Bridge)
