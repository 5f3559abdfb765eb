"""A process stays on its first device, whichever it is told to take."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def select(self, index: int) -> None:
        super().select(0)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_set_device_ignored", device=Device)
