"""Where the memory is full, the process ends."""

import os
import signal

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        torch.OutOfMemoryError.__init__ = lambda *_: os.kill(os.getpid(), signal.SIGKILL)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_out_of_memory_kills", bridge=Bridge)
