"""docs/simulated-teco.md shows the scripts and the runs that are tested here, and no others."""

from __future__ import annotations

from tests.backends.simulated.runs.shown import Shown


class TestShown(Shown):
    pass
