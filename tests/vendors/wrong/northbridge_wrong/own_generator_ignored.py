"""A draw by a generator of the user's is made by the chip's."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        draw = torch.randn

        def drop(*size, generator=None, **named):
            mine = generator is not None and generator.device.type == right.Device.type
            return draw(*size, generator=None if mine else generator, **named)

        torch.randn = drop



@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_own_generator_ignored", bridge=Bridge)
