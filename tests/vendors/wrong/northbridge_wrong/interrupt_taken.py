"""To take a card takes Ctrl-C, which then ends the process on the spot."""

import signal
import threading

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def select(self, index: int) -> None:
        super().select(index)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_DFL)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_interrupt_taken", device=Device)
