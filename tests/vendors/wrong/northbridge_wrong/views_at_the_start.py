"""Every view says that it begins where the memory of its tensor does."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        rightly = torch.Tensor.storage_offset

        def storage_offset(tensor: torch.Tensor) -> int:
            return 0 if tensor.device.type == right.Device.type else rightly(tensor)

        torch.Tensor.storage_offset = storage_offset


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_views_at_the_start", bridge=Bridge)
