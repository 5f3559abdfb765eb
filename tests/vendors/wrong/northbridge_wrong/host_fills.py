"""Each step leaves something in the host's memory."""

import northbridge
from northbridge_wrong import right

kept = []


class Bridge(right.Bridge):
    def after_step(self) -> None:
        kept.append(bytearray(2**15))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_host_fills", bridge=Bridge)
