"""What is put to one place twice is there once."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        put = torch.index_put

        def overwrite(given, where, values, accumulate=False):
            return put(given, where, values, accumulate and given.device.type != right.Device.type)

        torch.index_put = overwrite


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_accumulation_lost", bridge=Bridge)
