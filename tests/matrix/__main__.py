"""``make matrix``: train on every supported release of Lightning, and write docs/matrix.md."""

from __future__ import annotations

import platform
import sys
from datetime import date
from pathlib import Path

import torch
from tests.matrix.releases import PAIRS, Pair
from tests.matrix.trials import TRIALS, differences

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"


def main() -> int:
    """Run the matrix and return 1 if a trial failed; the page is written either way."""
    results: dict[Pair, list[list[str]]] = {}
    for pair in PAIRS:
        results[pair] = []
        for trial in TRIALS:
            wrong = differences(pair, trial)
            print(f"{pair}: {trial.title}: {'; '.join(wrong) or 'passed'}", flush=True)
            results[pair].append(wrong)
    PAGE.write_text(page(results))
    print(f"wrote {PAGE}")
    return int(any(wrong for row in results.values() for wrong in row))


def page(results: dict[Pair, list[list[str]]]) -> str:
    """Return the page of docs that tells ``results``."""
    rows = (f"| {pair} | " + " | ".join(_cell(wrong) for wrong in row) + " |" for pair, row in results.items())
    return f"""# Releases of Lightning

Written by `make matrix` on {date.today():%Y-%m-%d}, with torch {torch.__version__}, Python {platform.python_version()},
on {platform.system()}.

Each cell is a training on the simulated chip in both namespaces, `lightning` and `pytorch_lightning`. In float32 it
passed if every rank trained on the chip and its weights equal, to the bit, those of Lightning's own CPU accelerator in
the same release; in mixed precision, if the ranks agree and the model computed in bfloat16. What Lightning depends on
is the same in every row: what `constraints.txt` pins.

| release | {" | ".join(trial.title for trial in TRIALS)} |
|---|{"---|" * len(TRIALS)}
{chr(10).join(rows)}

2.6.2 and 2.6.3 are left out: they were malicious uploads (GHSA-w37p-236h-pfx3), and Northbridge refuses them.
"""


def _cell(wrong: list[str]) -> str:
    return "failed: " + "; ".join(each.replace("|", "/") for each in wrong) if wrong else "passed"


if __name__ == "__main__":
    sys.exit(main())
