"""One device fewer is counted than there are."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def count(self) -> int:
        return super().count() - 1


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_count_wrong", device=Device)
