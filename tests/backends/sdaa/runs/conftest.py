"""Runs as users start them: a script, and its ranks on simulated cards."""

from __future__ import annotations

from tests.backends.simulated.runs.fixtures import (
    documented as documented,
    nodes as nodes,
    run as run,
    start as start,
)
