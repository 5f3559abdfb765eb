"""A softmax divides exponentials by their sum, as large as they may be."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        softmax = torch.softmax

        def divide(given, dim, *rest, **named):
            if given.device.type != right.Device.type:
                return softmax(given, dim, *rest, **named)
            powers = given.exp()
            return powers / powers.sum(dim, keepdim=True)

        torch.softmax = divide


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_softmax_runs_over", bridge=Bridge)
