"""Simulated Gaudi cards share out models, as their vendor's library can."""

from __future__ import annotations

from tests.backends.simulated.sharded import TestSharding as TestSharding
