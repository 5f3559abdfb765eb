"""Runs as users start them: a script, its ranks, and two nodes."""

from __future__ import annotations

from tests.backends.simulation.runs.fixtures import *  # noqa: F403 - its fixtures are those of this folder
