"""The software is loaded before it is prepared for."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def prepare(self) -> None:
        self.load()
        super().prepare()


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_hooks_in_wrong_order", bridge=Bridge)
