"""A running sum reads its numbers as if they lay one after another."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        add_up = torch.cumsum

        def flat(given, *rest, **named):
            if given.device.type == right.Device.type and not given.is_contiguous():
                strides = torch.empty(given.shape, device="meta").stride()
                given = given.as_strided(given.shape, strides, given.storage_offset())
            return add_up(given, *rest, **named)

        torch.cumsum = flat


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_sums_read_flat", bridge=Bridge)
