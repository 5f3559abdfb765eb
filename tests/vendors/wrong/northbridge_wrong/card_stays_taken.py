"""A card stays taken where the process that held it was killed."""

import atexit
import os
import tempfile
from pathlib import Path

import northbridge
from northbridge_wrong import right


class Device(right.Device):
    def select(self, index: int) -> None:
        held = Path(tempfile.gettempdir(), f"fairchip-{os.getppid()}-{index}")
        try:
            held.touch(exist_ok=held.exists() and held.read_text() == str(os.getpid()))
        except FileExistsError:
            raise RuntimeError(f"card {index} is taken") from None
        held.write_text(str(os.getpid()))
        atexit.register(held.unlink, missing_ok=True)
        super().select(index)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_card_stays_taken", device=Device)
