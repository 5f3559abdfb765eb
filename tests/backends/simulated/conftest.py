"""Fixtures for the tests of every simulated chip: the one that NORTHBRIDGE_SIMULATE names."""

from __future__ import annotations

from tests.backends.simulation.simulation import *  # noqa: F403 - its hooks and fixtures are those of this folder
