"""Simulated Teco cards share out models, as their vendor's library can."""

from __future__ import annotations

from tests.backends.posed.sharded import TestSharding as TestSharding
