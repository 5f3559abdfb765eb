"""Autocast lowers float64 too."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch
        from torch.nn import functional

        linear = functional.linear

        def lower(given, *rest):
            if given.device.type == right.Device.type and torch.is_autocast_enabled(right.Device.type):
                kind = torch.get_autocast_dtype(right.Device.type)
                given, *rest = (each if each is None else each.to(kind) for each in (given, *rest))
            return linear(given, *rest)

        functional.linear = lower



@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_float64_lowered", bridge=Bridge)
