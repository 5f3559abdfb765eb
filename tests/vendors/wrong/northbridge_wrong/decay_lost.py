"""The loop over all parameters adds no decay to their gradients."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        add = torch._foreach_add

        def keep(gradients, others, *rest, **named):
            if isinstance(others, (list, tuple)) and gradients[0].device.type == right.Device.type:
                return [each.clone() for each in gradients]
            return add(gradients, others, *rest, **named)

        torch._foreach_add = keep



@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_decay_lost", bridge=Bridge)
