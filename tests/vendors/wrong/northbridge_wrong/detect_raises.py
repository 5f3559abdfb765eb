"""Whoever asks whether the chip is there gets an error."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def detect(self) -> int:
        raise RuntimeError("the driver does not answer")


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_detect_raises", bridge=Bridge)
