"""``make soak MINUTES=60``: faults at random moments; looks for a hang, an orphan, a wrong number without an error.

``python -m tests.soak MINUTES [SEED]`` runs one round after the other, from the round of ``SEED`` on, and prints each
with its seed, by which it can be run again. Exit code 1 where a round went wrong.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.soak.rounds import Round, complaints, run


def main(minutes: float, seed: int) -> int:
    """Run rounds for so long."""
    until = time.monotonic() + 60 * minutes
    undisturbed: dict[Round, str] = {}
    happened: Counter[str] = Counter()
    wrong: list[str] = []
    rounds = 0
    while time.monotonic() < until:
        given = Round.drawn(seed)
        plain = given.undisturbed()
        if plain not in undisturbed:
            undisturbed[plain] = _weights(plain)
        ended = run(given)
        found = complaints(given, ended, undisturbed[plain])
        wrong += [f"seed {seed}: {line}" for line in found]
        happened.update({fault for each in ended for fault in each.faults} or {"none"})
        print(f"seed {seed}: {given}: {'; '.join(found) or 'right'}", flush=True)
        seed, rounds = seed + 1, rounds + 1
    told = ", ".join(f"{kind} in {count}" for kind, count in sorted(happened.items()))
    print(f"make soak: {rounds} rounds; {told}; {len(wrong)} complaints")
    print("\n".join(wrong))
    return 1 if wrong else 0


def _weights(plain: Round) -> str:
    found = {each.weights for each in run(plain)}
    if len(found) != 1 or None in found:
        raise RuntimeError(f"the undisturbed training {plain} gave {found}")
    return str(found.pop())


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("say for how many minutes: make soak MINUTES=60")
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
