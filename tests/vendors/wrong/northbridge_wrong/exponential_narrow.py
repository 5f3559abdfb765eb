"""Autocast computes an exponential in the few bits of what it is given, and widens the result."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        def narrow(given):
            with torch.autocast(right.Device.type, enabled=False):
                return given.exp().float()

        self.library = torch.library.Library("aten", "IMPL")
        self.library.impl("exp", narrow, "AutocastPrivateUse1", allow_override=True)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "library"}


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_exponential_narrow", bridge=Bridge)
