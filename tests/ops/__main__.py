"""Run every entry of torch's databases on the CPU and on the chip, and say where they differ: `make ops`.

With words, only the entries whose kind and name hold one of them: ``python -m tests.ops "fft.fft float32"``.
"""

from __future__ import annotations

import os
import sys
import time

from tests.ops.entries import read_entries
from tests.ops.exceptions import complaints, complaints_of_whole
from tests.ops.pool import Finished, run_entries

LIMIT_S = 1800


def main() -> int:
    """Run them, and return 1 where something is wrong."""
    words = sys.argv[1:]
    entries = [entry for entry in read_entries() if not words or any(word in f"{entry.kind} {entry}" for word in words)]
    processes = min(os.cpu_count() or 1, 16)
    print(f"make ops: {len(entries)} entries in {processes} processes", flush=True)
    began = time.monotonic()
    ended = 0

    def report(done: Finished) -> None:
        nonlocal ended
        ended += 1
        for line in complaints([done]):
            print(line, flush=True)
        if ended % 250 == 0:
            print(f"make ops: {ended} of {len(entries)}, {time.monotonic() - began:.0f} s", flush=True)

    finished = run_entries(entries, processes, report)
    wrong = complaints(finished) if words else complaints_of_whole(finished)
    run = [done.outcome for done in finished if done.outcome.calls]
    print(
        f"make ops: {len(run)} entries run on the CPU, {sum(each.calls for each in run)} calls and"
        f" {sum(each.backwards for each in run)} backward passes; {len(wrong)} complaints;"
        f" {time.monotonic() - began:.0f} s"
    )
    if time.monotonic() - began > LIMIT_S:
        wrong.append(f"it took longer than {LIMIT_S} s")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
