"""Runs as users start them: a script, and its ranks."""

from __future__ import annotations

from tests.backends.simulation.runs.fixtures import *  # noqa: F403 - its fixtures are those of this folder
