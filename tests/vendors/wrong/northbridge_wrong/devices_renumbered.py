"""The devices are counted from the other end."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def root(self, index: int):
        return super().root(self.count() - 1 - index)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_devices_renumbered", device=Device)
