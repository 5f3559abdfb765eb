"""Gradients that are dropped are zeros."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.optim import Optimizer

        clear = Optimizer.zero_grad
        Optimizer.zero_grad = lambda self, set_to_none=True: clear(self, set_to_none=False)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_gradients_filled", bridge=Bridge)
