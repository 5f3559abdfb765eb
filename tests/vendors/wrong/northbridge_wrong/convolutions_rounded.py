"""Convolutions of float32 are computed in float16, and claimed not to be."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.nn import functional

        conv2d = functional.conv2d

        def halved(given, weight, *rest, **named):
            if given.device.type == right.Device.type:
                given, weight = (each.half().to(each.dtype) for each in (given, weight))
            return conv2d(given, weight, *rest, **named)

        functional.conv2d = halved


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_convolutions_rounded", bridge=Bridge)
