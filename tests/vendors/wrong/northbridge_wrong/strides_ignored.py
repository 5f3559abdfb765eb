"""A convolution reads its input as if it lay in one piece."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch
        from torch.nn import functional

        conv2d = functional.conv2d

        def flat(given, *rest, **named):
            if given.device.type == right.Device.type and not given.is_contiguous():
                strides = torch.empty(given.shape, device="meta").stride()
                given = given.as_strided(given.shape, strides, given.storage_offset())
            return conv2d(given, *rest, **named)

        functional.conv2d = flat


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_strides_ignored", bridge=Bridge)
