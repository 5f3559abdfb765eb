"""The simulated Teco cards keep the strict options of the chip that they stand on."""

from __future__ import annotations

from tests.backends.simulated.strict_options import *  # noqa: F403 - each of its classes is one of this module
