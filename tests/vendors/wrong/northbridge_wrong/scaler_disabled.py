"""The gradient scaler for float16 is one that does nothing."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.amp import GradScaler

        begin = GradScaler.__init__
        GradScaler.__init__ = lambda self, device: begin(self, device, enabled=False)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_scaler_disabled", bridge=Bridge)
