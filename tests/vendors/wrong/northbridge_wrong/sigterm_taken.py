"""The vendor's software takes SIGTERM, and ends the process by it."""

import signal

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def after_step(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_sigterm_taken", bridge=Bridge)
