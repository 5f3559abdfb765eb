"""An error about shapes counts as full memory."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    out_of_memory = ("memory", "cannot")


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_every_error_is_memory", device=Device)
