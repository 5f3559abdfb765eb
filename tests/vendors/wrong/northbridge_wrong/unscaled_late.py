"""Gradients are unscaled when the optimizer steps, and not when they are asked to be."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.amp import GradScaler

        step = GradScaler.step
        unscale = GradScaler.unscale_

        def step_late(self, optimizer, *rest, **named):
            unscale(self, optimizer)
            return step(self, optimizer, *rest, **named)

        GradScaler.unscale_ = lambda self, optimizer: None
        GradScaler.step = step_late



@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_unscaled_late", bridge=Bridge)
