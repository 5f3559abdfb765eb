"""On the second node the devices are counted on from the first."""

import os

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def select(self, index: int) -> None:
        super().select((index + int(os.environ.get("NODE_RANK", "0"))) % self.count())


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_nodes_counted_on", device=Device)
