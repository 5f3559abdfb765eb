"""To take a card has the user's own processes spawned from then on."""

import multiprocessing

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def select(self, index: int) -> None:
        super().select(index)
        multiprocessing.set_start_method("spawn", force=True)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_workers_spawned", device=Device)
