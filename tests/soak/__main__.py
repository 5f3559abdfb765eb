"""``make soak MINUTES=60 CHIP=hpu``: faults at random moments, and whether a rank hangs, or is wrong without a word.

``python -m tests.soak MINUTES [CHIP [SEED]]`` runs one round after the other on a simulated chip, from the round of
``SEED`` on, and prints each with its seed, by which it can be run again. Exit code 1 where a round went wrong.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.soak.job import TIMEOUT_S

from northbridge_conformance.runs.processes import reserve_port

JOB = Path(__file__).with_name("job.py")
ROOT = JOB.parents[2]
LIMIT_S = TIMEOUT_S + 80.0
"""So long may a round last: the start of the ranks on a busy machine, and the library's timeout."""

_OPERATIONS = [
    *("addmm", "tanh", "mm", "add_", "copy_", "all_reduce", "reduce_scatter_tensor", "broadcast", "synchronize"),
]
_ANNOUNCED = re.compile(r"^northbridge: planned fault: (\w+)", re.MULTILINE)
_WEIGHTS = re.compile(r"^weights (\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Round:
    """A training of ``kind`` on ``size`` ranks of ``chip``, under a plan of faults and some of the strict options."""

    chip: str
    kind: str
    size: int
    plan: str = ""
    deferred: bool = False
    checked: bool = False

    @classmethod
    def drawn(cls, seed: int, chip: str) -> Round:
        """Return the round of this seed on a simulated chip."""
        draw = random.Random(seed)
        kind, size = draw.choice(("ddp", "fsdp2")), draw.choice((2, 2, 4))
        faults = "; ".join(_fault(draw, size) for _ in range(draw.choice((1, 1, 2))))
        return cls(chip, kind, size, faults, draw.random() < 0.5, draw.random() < 0.5)

    def undisturbed(self) -> Round:
        """Return the same training without a fault."""
        return Round(self.chip, self.kind, self.size)

    def __str__(self) -> str:
        options = [name for name, on in (("deferred", self.deferred), ("checked", self.checked)) if on]
        return " ".join([self.chip, self.kind, str(self.size), *options, f"[{self.plan}]"])


@dataclass(frozen=True)
class Ended:
    """The end of one rank: exit code, output, whether it had to be killed, and the processes that it left."""

    code: int
    said: str
    was_stuck: bool
    orphans: tuple[int, ...]

    @property
    def faults(self) -> set[str]:
        """The kinds of the planned faults that happened to it."""
        return set(_ANNOUNCED.findall(self.said))

    @property
    def weights(self) -> str | None:
        """The digest of its weights, where it came so far."""
        found = _WEIGHTS.search(self.said)
        return found[1] if found else None


def run(given: Round) -> list[Ended]:
    """Run all ranks of a round to their end."""
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NORTHBRIDGE_")},
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(reserve_port()),
        "WORLD_SIZE": str(given.size),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        **({} if given.chip == "cpu_sim" else {"NORTHBRIDGE_SIMULATE": given.chip}),
        "NORTHBRIDGE_CPU_SIM_FAULTS": given.plan,
        "NORTHBRIDGE_CPU_SIM_STREAMS": "deferred" if given.deferred else "immediate",
        "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": str(int(given.checked)),
    }
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if given.chip == "hpu":  # other processes may hold cards of the machine's own server
            environ["NORTHBRIDGE_HPU_SIM_SERVER"] = folder
        outputs = [stack.enter_context((Path(folder) / str(rank)).open("w+b")) for rank in range(given.size)]
        ranks = [
            subprocess.Popen(
                [sys.executable, str(JOB), given.kind, given.chip],
                env={**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for rank, output in enumerate(outputs)
        ]
        stuck = _wait(ranks)
        codes = [rank.wait() for rank in ranks]
        said = [Path(output.name).read_text(errors="replace") for output in outputs]
        orphans = [tuple(_session(rank.pid)) for rank in ranks]
    return [Ended(codes[rank], said[rank], rank in stuck, orphans[rank]) for rank in range(given.size)]


def complaints(given: Round, ended: list[Ended], weights: str) -> list[str]:
    """Return what is wrong with how a round ended, where ``weights`` are those of the undisturbed training."""
    faults = set[str]().union(*(each.faults for each in ended))
    lines = []
    for rank, each in enumerate(ended):
        last = (each.said.strip().splitlines() or ["nothing"])[-1]
        allowed = {0, 1} | ({-signal.SIGKILL} if "kill" in each.faults else set())
        if each.was_stuck and "hang" not in each.faults:
            lines.append(f"rank {rank} hung; it said last: {last}")
        elif not each.was_stuck and each.code not in allowed:
            lines.append(f"rank {rank} ended by {each.code}; it said last: {last}")
        if each.code == 1 and not faults:
            lines.append(f"rank {rank} failed, and no fault had happened: {last}")
        if each.code == 0 and each.weights != weights and "corrupt" not in faults:
            lines.append(f"rank {rank} has other weights ({each.weights}, not {weights}), without an error")
        if each.orphans:
            lines.append(f"rank {rank} left processes {each.orphans} behind")
    return [f"{given}: {line}" for line in lines]


def _fault(draw: random.Random, size: int) -> str:
    kind = draw.choice(("kill", "hang", "slow", "raise", "oom", "corrupt", "lose"))
    words = [kind]
    if draw.random() < 0.8:
        words.append(f"rank={draw.randrange(size)}")
    if draw.random() < 0.4 and kind != "oom":
        operations = [name for name in _OPERATIONS if not (kind == "corrupt" and name == "synchronize")]
        words.append(f"op={draw.choice(operations)}")
    if draw.random() < 0.5:
        words.append(f"step={draw.randrange(8)}")
    else:
        words.append(f"after={draw.randrange(400)}")
    if draw.random() < 0.3:
        words += [f"probability={draw.choice((0.01, 0.1, 0.5))}", f"seed={draw.randrange(1000)}"]
    return " ".join([*words, *(["seconds=0.5"] if kind == "slow" else [])])


def _wait(ranks: list[subprocess.Popen[bytes]]) -> set[int]:
    """Wait for all to end; end those that do not, and return which they were."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and any(rank.poll() is None for rank in ranks):
        time.sleep(0.1)
    stuck = {index for index, rank in enumerate(ranks) if rank.poll() is None}
    for index in stuck:
        ranks[index].terminate()
    for index in stuck:
        try:
            ranks[index].wait(10)
        except subprocess.TimeoutExpired:
            ranks[index].kill()
    return stuck


def _session(leader: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(")")[2].split()
            if fields[3] == str(leader) and fields[0] != "Z":
                yield int(stat.parent.name)


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
    ended = run(plain)
    found = {each.weights for each in ended}
    if len(found) != 1 or None in found:
        said = "\n".join(f"rank {rank}, exit code {each.code}:\n{each.said}" for rank, each in enumerate(ended))
        sys.exit(f"the undisturbed training {plain} has weights {found}\n{said}")
    return str(found.pop())


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit("say for how many minutes, and on which chip: make soak MINUTES=60 CHIP=hpu")
    asked = dict(enumerate(sys.argv))
    sys.exit(main(float(sys.argv[1]), asked.get(2, "cpu_sim"), int(asked.get(3, 0))))
