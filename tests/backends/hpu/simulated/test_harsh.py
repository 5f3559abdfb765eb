"""The simulated Gaudi cards are as harsh as the chip that they stand on."""

from __future__ import annotations

from tests.backends.posed.harsh import *  # noqa: F403 - each of its classes is one of this module
