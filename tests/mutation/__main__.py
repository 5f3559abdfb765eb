"""Break ten things of a backend on purpose, and say which the suite finds: ``python -m tests.mutation NAME SEED``."""

from __future__ import annotations

import sys

from tests.mutation.hunt import LEAST, hunt, is_enough


def main(name: str, seed: str) -> int:
    """Say what came of each fault as it is known; return 0 where enough were found."""
    catches = hunt(name, int(seed), tell=lambda catch: print(catch.describe(), flush=True))
    caught = sum(bool(catch.caught_by) for catch in catches)
    print(f"{caught} of {len(catches)} faults of seed {seed} were caught; it takes {LEAST}")
    return 0 if is_enough(catches) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
