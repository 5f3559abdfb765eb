"""The doctor, asked about a simulated chip."""

from __future__ import annotations

from tests.backends.simulation.chip import SimChip
from tests.core.command import Completed, command
from tests.scripts import run_python


def ask(chip: SimChip, environment: dict[str, str], *options: str, **environ: str) -> Completed:
    """Run ``northbridge doctor`` for ``chip``, and return what it said."""
    environ = {**environment, "COLUMNS": "100", "OMP_NUM_THREADS": "1", **environ}
    return run_python("-c", command("doctor", chip.name, *options), environ=environ)
