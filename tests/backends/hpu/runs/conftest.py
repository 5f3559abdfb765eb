"""Runs as users start them: a script, its ranks, and a simulated server of the test's own."""

from __future__ import annotations

from tests.backends.simulated.runs.fixtures import (
    documented as documented,
    nodes as nodes,
    run as run,
    start as start,
)
