"""Products of bfloat16 end where float16 does, and are claimed not to."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch
        from torch.nn import functional

        linear = functional.linear

        def cut(given, weight, bias=None):
            if given.device.type == right.Device.type and given.dtype == torch.bfloat16:
                given = given.clamp(-65407, 65407)
            return linear(given, weight, bias)

        functional.linear = cut


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_bfloat16_ends_early", bridge=Bridge)
