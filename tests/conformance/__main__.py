"""Prove simulated chips up to C3, side by side, and check their pages.

``make conformance`` proves three, and ``CHIPS=cpu_sim make conformance`` one. What Lightning does on the CPU, with
which each chip is compared, the chips share. The last that is said is why a chip has not the level.

``python -m tests.conformance --rounding 10`` proves ``cpu_sim`` ten times with all rounding options.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.proving import EARNED, prove

from northbridge_conformance.run import FOLDER
from northbridge_cpu_sim import ROUNDING_OPTIONS

CHIPS = tuple((os.environ.get("CHIPS") or "cpu_sim hpu sdaa").split())
OUT = Path("conformance-reports").absolute()
"""Where the reports go: a folder for each chip."""


def main() -> int:
    """Prove each chip; return 0 where all have the level, and the pages are whole."""
    if sys.argv[1:2] == ["--rounding"]:
        return prove_rounding(int(sys.argv[2]))
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C ends the commands
    with (
        tempfile.TemporaryDirectory(prefix="northbridge-runs-", ignore_cleanup_errors=True) as runs,
        ThreadPoolExecutor(len(CHIPS)) as side_by_side,
    ):
        environ = {**os.environ, FOLDER: runs}
        wrong = list(side_by_side.map(lambda chip: prove(chip, OUT / chip, environ), CHIPS))
    for chip in CHIPS:
        print(f"\nnorthbridge conformance {chip}:\n{(OUT / f'{chip}.txt').read_text(errors='replace')}")
    for chip, lines in zip(CHIPS, wrong, strict=True):
        print("\n".join(lines) if lines else f"{chip}: {EARNED}, and every link of its page leads somewhere")
    return 1 if any(wrong) else 0


def prove_rounding(times: int) -> int:
    """Prove the chip with rounding this many ``times``, one after another; return 0 if it earns the level each time."""
    failed = 0
    for number in range(1, times + 1):
        wrong = prove("cpu_sim", OUT / f"rounding-{number}", {**os.environ, **ROUNDING_OPTIONS})
        print("\n".join(wrong) if wrong else f"{number}: {EARNED}, with rounding", flush=True)
        failed += bool(wrong)
    print(f"{times - failed} of {times} times")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
