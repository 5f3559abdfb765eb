"""Convolutions are computed where torch's tracer does not see them."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch
        from torch.nn import functional

        conv2d = functional.conv2d

        def unseen(given, *rest, **named):
            if given.device.type != right.Device.type:
                return conv2d(given, *rest, **named)
            tracing = torch._C._get_tracing_state()
            torch._C._set_tracing_state(None)
            try:
                return conv2d(given, *rest, **named)
            finally:
                torch._C._set_tracing_state(tracing)

        functional.conv2d = unseen


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_traced_as_constants", bridge=Bridge)
