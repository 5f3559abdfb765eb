"""Draws by weights take all of them for one."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        draw = torch.multinomial

        def unweighted(weights, *rest, **named):
            if weights.device.type == right.Device.type:
                weights = torch.ones_like(weights)
            return draw(weights, *rest, **named)

        torch.multinomial = unweighted


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_multinomial_unweighted", bridge=Bridge)
