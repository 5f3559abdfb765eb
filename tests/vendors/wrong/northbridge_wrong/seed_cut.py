"""A seed is kept in 31 bits."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def seed(self, seed):
        super().seed(seed & 0x7FFFFFFF)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_seed_cut", device=Device)
