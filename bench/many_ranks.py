"""``python -m bench.many_ranks``: what a step of 2 to 64 ranks costs, and ``docs/ranks.svg`` of it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from bench import child

COUNTS = (2, 4, 8, 16, 32, 64)
ACCELERATORS = ("cpu_sim", "cpu")
START = "RANKS_START"
"""The variable with the time at which the training was started."""


@dataclass(frozen=True)
class Cost:
    """What the ranks of one training cost."""

    first_step_seconds: float
    """From the start of the command to the end of the first step."""

    step_seconds: float
    cpu_seconds: float
    """Of one rank in one step; other processes of the machine make ``step_seconds`` longer, and this hardly."""

    private_megabytes: float
    """The pages that a rank shares with no other process, of the rank with the most."""


@cache
def cost(ranks: int, accelerator: str = "cpu_sim") -> Cost:
    """Train so many ranks on this machine. Raises :class:`bench.child.MeasurementError`."""
    environ = {"NORTHBRIDGE_CPU_SIM_DEVICES": "64", "OMP_NUM_THREADS": "1", START: repr(time.time())}
    command = [sys.executable, "-m", "bench.forked_ranks", str(ranks), accelerator]
    return Cost(**json.loads(child.run(command, environ=environ).splitlines()[-1]))


def first_step_of_64() -> float:
    """Return the seconds to the first step of 64 ranks."""
    return cost(64).first_step_seconds


def memory_of_64() -> float:
    """Return the MB that the largest of 64 ranks has for itself."""
    return cost(64).private_megabytes


def row(ranks: int, accelerator: str, found: Cost) -> str:
    """Return a line of the table."""
    step, cpu = 1e3 * found.step_seconds, 1e3 * found.cpu_seconds
    times = f"{found.first_step_seconds:.1f} s | {step:.0f} ms | {cpu:.1f} ms"
    return f"| {ranks} | {accelerator} | {times} | {found.private_megabytes:.0f} MB |"


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print a row for each number of ranks, and draw; return the exit code."""
    what = f"Measure what a step of {COUNTS[0]} to {COUNTS[-1]} ranks costs: minutes of a machine that is left alone."
    argparse.ArgumentParser(prog="python -m bench.many_ranks", description=what).parse_args(arguments)
    costs: dict[str, list[Cost]] = {accelerator: [] for accelerator in ACCELERATORS}
    print("| ranks | on | to the first step | a step | CPU time of a rank in it | memory of a rank |")
    print("|---|---|---|---|---|---|")
    try:
        for count in COUNTS:
            for accelerator in ACCELERATORS:
                found = cost(count, accelerator)
                costs[accelerator].append(found)
                print(row(count, accelerator, found), flush=True)
    except child.MeasurementError as error:
        print(f"could not be measured: {error}", file=sys.stderr)
        return 3
    from bench.ranks_plot import PICTURE, draw  # after the measuring: a child's memory begins with this process's

    draw(costs)
    print(f"\ndrew {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
