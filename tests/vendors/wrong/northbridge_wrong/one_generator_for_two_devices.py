"""The random state of every device is that of the first one."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def random_state(self):
        return self.module.get_rng_state(0)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_one_generator_for_two_devices", device=Device)
