"""To take a card turns deterministic algorithms off again."""

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def select(self, index: int) -> None:
        import torch

        super().select(index)
        torch.use_deterministic_algorithms(False)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_deterministic_off", device=Device)
