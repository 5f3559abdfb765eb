"""Simulated Teco cards compute layers as the CPU does."""

from __future__ import annotations

from tests.backends.simulated.layers import TestLayers as TestLayers
