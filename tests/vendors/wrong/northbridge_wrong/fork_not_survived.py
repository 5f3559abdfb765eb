"""What the plugin has loaded does not survive a fork, which it claims to."""

import os

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    loaded_in = 0

    def load(self) -> None:
        super().load()
        Bridge.loaded_in = Bridge.loaded_in or os.getpid()

    def prepare_rank(self, **given: int) -> None:
        if Bridge.loaded_in not in (0, os.getpid()):
            raise RuntimeError("the driver was loaded in another process")


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_fork_not_survived", bridge=Bridge)
