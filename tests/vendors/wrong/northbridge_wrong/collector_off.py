"""To take a card turns Python's collector off."""

import gc

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def select(self, index: int) -> None:
        super().select(index)
        gc.disable()


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_collector_off", device=Device)
