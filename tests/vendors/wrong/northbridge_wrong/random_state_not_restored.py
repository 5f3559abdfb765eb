"""A random state that is put back is dropped."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def set_random_state(self, state) -> None:
        pass


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_random_state_not_restored", device=Device)
