"""The room of this run: the record of what its processes touch, and the servers that they stand on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.backends.simulation.chip import SimChip

ROOM = Path(tempfile.mkdtemp(prefix="northbridge-sim-"))


def enter(chip: SimChip) -> None:
    """Have every process of every test write down what it touches, on a server that nobody else stands on.

    It is for the top of a conftest.py: before torch is imported, which is when the stand-ins are put in place.
    """
    os.environ[chip.record.VARIABLE] = str(ROOM / "record")
    if chip.server is not None:
        # This process uses a server of its own, so that the card that it takes is not one of the tests'.
        os.environ.update(chip.on_server(ROOM / "own"))
        chip.server()
        os.environ.update(chip.on_server(ROOM / "server"))
