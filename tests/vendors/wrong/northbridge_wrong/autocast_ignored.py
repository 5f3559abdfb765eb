"""Autocast is never switched on for the chip."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        switch = torch.set_autocast_enabled

        def for_others(device, enabled):
            switch(device, enabled and device != right.Device.type)

        torch.set_autocast_enabled = for_others


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_autocast_ignored", bridge=Bridge)
