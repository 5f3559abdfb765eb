"""Make each of the faults that the seeds 1 to 5 draw, and run the one test that ought to find it.

``python -m tests.mutation cpu_sim SEED`` runs every test that could find a fault; this is the least of it, and quick.
``python -m tests.faults.drawn_faults`` writes docs/reports/drawn-faults.md, which is a record of one run.
"""

from __future__ import annotations

import os
import sys
from operator import attrgetter
from pathlib import Path

from tests.mutation.hunt import Catch, hunt, is_enough

SEEDS = (1, 2, 3, 4, 5)
PAGE = Path(__file__).parents[2] / "docs" / "reports" / "drawn-faults.md"


def try_seed(seed: int) -> list[Catch]:
    """Return what came of the ten faults of ``seed``."""
    return hunt("cpu_sim", seed, by=attrgetter("ought"))


def main() -> int:
    """Try them all, and write the page; return 0 where enough of each seed were found."""
    catches = {seed: try_seed(seed) for seed in SEEDS}
    rows = [
        f"| {seed} | {catch.mutation.describe()} | {_name_the_finder(catch)} |"
        for seed, ten in catches.items()
        for catch in ten
    ]
    PAGE.write_text(
        "# Faults drawn by a seed\n\n"
        f"Each of the seeds {SEEDS[0]} to {SEEDS[-1]} draws ten faults of the simulated chip. This table lists the test"
        " that found each. Only the expected test was run; `python -m tests.mutation cpu_sim SEED` runs all that could"
        " find it. `make test-all` repeats the first seed. `python -m tests.faults.drawn_faults` writes this"
        " page.\n\n"
        "| seed | fault | test that found it |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )
    return 0 if all(map(is_enough, catches.values())) else 1


def _name_the_finder(catch: Catch) -> str:
    return f"`{catch.caught_by[0]}`" if catch.caught_by else f"missed by `{catch.mutation.ought}`"


if __name__ == "__main__":
    os.environ.pop("NORTHBRIDGE_SIMULATE", None)
    sys.exit(main())
