"""To read the statistics of a device makes it the current one."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def memory_stats(self, index):
        self.module.set_device(index)
        return super().memory_stats(index)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_statistics_move", device=Device)
