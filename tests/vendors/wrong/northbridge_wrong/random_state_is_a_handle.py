"""A random state is a number that this process alone understands."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def __init__(self) -> None:
        self.states = []

    def random_state(self):
        import torch

        self.states.append(super().random_state())
        return torch.tensor([len(self.states) - 1])

    def set_random_state(self, state):
        if int(state) < len(self.states):
            super().set_random_state(self.states[int(state)])


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_random_state_is_a_handle", device=Device)
