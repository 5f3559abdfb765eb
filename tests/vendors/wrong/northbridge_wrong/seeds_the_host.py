"""To seed the chip seeds the CPU."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def seed(self, seed):
        import torch

        torch.manual_seed(seed)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_seeds_the_host", device=Device)
