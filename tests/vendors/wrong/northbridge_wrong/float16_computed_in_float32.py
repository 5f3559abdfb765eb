"""Autocast in float16 computes in float32."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        choose = torch.set_autocast_dtype

        def wider(device, dtype):
            choose(device, torch.float32 if dtype == torch.float16 else dtype)

        torch.set_autocast_dtype = wider


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_float16_computed_in_float32", bridge=Bridge)
