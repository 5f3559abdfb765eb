"""What an evaluation needs of the chip is given back by no one."""

import northbridge
from northbridge_wrong import right

kept = []


class Bridge(right.Bridge):
    def after_evaluation(self) -> None:
        import torch

        kept.append(torch.ones(2**16, device=right.Device.type))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_evaluation_kept", bridge=Bridge)
