"""``make soak MINUTES=60 CHIP=hpu``: faults at random moments, and whether a rank hangs, or is wrong without a word.

``python -m tests.soak MINUTES [CHIP [SEED]]`` runs one round after the other on a simulated chip, from the round of
``SEED`` on, and prints each with its seed, by which it can be run again. Exit code 1 where a round went wrong.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.soak.rounds import Round, complaints, run


def main(minutes: float, chip: str, seed: int) -> int:
    """Run rounds for so long."""
    until = time.monotonic() + 60 * minutes
    undisturbed: dict[Round, str] = {}
    happened: Counter[str] = Counter()
    wrong: list[str] = []
    rounds = 0
    while time.monotonic() < until:
        given = Round.drawn(seed, chip)
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
    print(f"make soak: {chip}: {rounds} rounds; {told}; {len(wrong)} complaints")
    print("\n".join(wrong))
    return 1 if wrong else 0


def _weights(plain: Round) -> str:
    found = {each.weights for each in run(plain)}
    if len(found) != 1 or None in found:
        raise RuntimeError(f"the undisturbed training {plain} gave {found}")
    return str(found.pop())


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit("say for how many minutes, and on which chip: make soak MINUTES=60 CHIP=hpu")
    asked = dict(enumerate(sys.argv))
    sys.exit(main(float(sys.argv[1]), asked.get(2, "cpu_sim"), int(asked.get(3, 0))))
