"""The simulated Gaudi cards are as harsh as the chip that they stand on; they have no streams, which FSDP2 needs."""

from __future__ import annotations

from tests.backends.posed.harsh import (
    TestTheCardIsHarsh as TestTheCardIsHarsh,
    TestTheLibraryIsHarsh as TestTheLibraryIsHarsh,
)
