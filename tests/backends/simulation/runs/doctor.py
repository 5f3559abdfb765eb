"""The doctor, asked about a simulated chip."""

from __future__ import annotations

import subprocess
import sys

from tests.backends.simulation.chip import SimChip
from tests.core.command import Completed, command


def ask(chip: SimChip, environment: dict[str, str], *options: str, **environ: str) -> Completed:
    """Run ``northbridge doctor`` for ``chip``, and return what it said."""
    return subprocess.run(
        [sys.executable, "-c", command("doctor", chip.name, *options)],
        env={**environment, "COLUMNS": "100", "OMP_NUM_THREADS": "1", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
