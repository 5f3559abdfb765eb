"""``make matrix``: train on every supported release of Lightning, and write docs/matrix.md.

``python -m tests.matrix --again`` runs the rows that failed on the page or are not there, and keeps the others.
"""

from __future__ import annotations

import platform
import sys
from datetime import date
from pathlib import Path

import torch
from tests.matrix.releases import PAIRS, PUBLISHED, Pair
from tests.matrix.trials import TRIALS, Trial, differences

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"


def main(*, again: bool) -> int:
    """Run the matrix, write the page, and return 1 if a trial failed; ``again``: only the rows that have not passed."""
    kept = _passed(PAGE.read_text()) if again else {}
    rows: dict[Pair, str] = {}
    for pair in PAIRS:
        rows[pair] = kept.get(str(pair)) or _row(pair, [_try(pair, trial) for trial in TRIALS])
    PAGE.write_text(page(rows, again=again))
    print(f"wrote {PAGE}")
    return int(any("failed" in row for row in rows.values()))


def _try(pair: Pair, trial: Trial) -> list[str]:
    wrong = differences(pair, trial)
    print(f"{pair}: {trial.title}: {'; '.join(wrong) or 'passed'}", flush=True)
    return wrong


def _passed(text: str) -> dict[str, str]:
    """Return the rows of a page in which every trial passed, by the release."""
    rows = (line for line in text.splitlines() if "| passed |" in line and "failed" not in line)
    return {line.split("|")[1].strip(): line for line in rows}


def _row(pair: Pair, wrong: list[list[str]]) -> str:
    return f"| {pair} | " + " | ".join(_cell(each) for each in wrong) + " |"


def page(rows: dict[Pair, str], *, again: bool = False) -> str:
    """Return the page of docs that tells ``rows``."""
    return f"""# Releases of Lightning

Written by `make matrix` on {date.today():%Y-%m-%d}, with torch {torch.__version__}, Python {platform.python_version()},
on {platform.system()}.{" Rows that had passed before were kept." if again else ""}

Each cell is a training on the simulated chip with `lightning` and with `pytorch_lightning`. In float32 it passed if
every rank trained on the chip and its weights equal, to the bit, those of Lightning's own CPU accelerator in the
same release. In mixed precision it passed if the ranks agree and the model computed in bfloat16. Every row has the
same versions of Lightning's dependencies, those in `constraints.txt`.

| release | {" | ".join(trial.title for trial in TRIALS)} |
|---|{"---|" * len(TRIALS)}
{chr(10).join(rows.values())}

2.6.2 and 2.6.3 were malicious uploads (GHSA-w37p-236h-pfx3). Northbridge does not run on them.

No newer source of Lightning than {PUBLISHED[-1]} could be had. The last row is that release with its version raised to
the next minor: Northbridge takes it for 2.7.0, and replaces in it what it replaces in {PUBLISHED[-1]}.
"""


def _cell(wrong: list[str]) -> str:
    return "failed: " + "; ".join(each.replace("|", "/") for each in wrong) if wrong else "passed"


if __name__ == "__main__":
    sys.exit(main(again="--again" in sys.argv[1:]))
