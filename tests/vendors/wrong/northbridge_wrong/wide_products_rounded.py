"""Products of many numbers are computed in bfloat16."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.nn import functional

        linear = functional.linear

        def tiled(given, weight, bias=None):
            if given.device.type == right.Device.type and weight.shape[1] >= 128:
                given = given.bfloat16().to(given.dtype)
            return linear(given, weight, bias)

        functional.linear = tiled


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_wide_products_rounded", bridge=Bridge)
