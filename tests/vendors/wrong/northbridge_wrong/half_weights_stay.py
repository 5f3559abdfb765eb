"""The fused loop over parameters leaves those of 16 bits as they are."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        for name in ("_foreach_addcdiv_", "_foreach_add_"):
            step = getattr(torch, name)

            def skip(parameters, *rest, step=step, **named):
                first = parameters[0]
                if first.device.type == right.Device.type and first.dtype.itemsize == 2 and first.requires_grad:
                    return None
                return step(parameters, *rest, **named)

            setattr(torch, name, skip)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_half_weights_stay", bridge=Bridge)
