"""Whichever device's state is asked for, it is that of the current one."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        chip = torch.get_device_module(right.Device.type)
        get, put = chip.get_rng_state, chip.set_rng_state
        chip.get_rng_state = lambda device=None: get()
        chip.set_rng_state = lambda state, device=None: put(state)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_state_of_the_current_device", bridge=Bridge)
