"""The entries of torch's databases: each operator, layer and optimizer with each dtype that is compared; outcomes."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["operator", "overload", "layer", "optimizer", "trace", "export"]

DTYPES = ("float32", "bfloat16", "float16", "int64", "bool", "complex64")
ROOT = Path(__file__).parents[2]
"""Where `tests` can be imported."""

SHARE = 10
"""One entry in so many belongs to the tenth that `make test-all` runs."""


REFUSAL = re.compile(
    r"NotImplementedError: aten::\S+ .*cpu_sim.*(to the CPU first|has no kernel for it)"
    r"|RuntimeError: aten::\S+ of \S+ is not computed"
)
ROUNDED = ", by rounding"
"""The end of a message about a difference of at most that."""

SAID = 3
"""So many failures of an entry are told in full."""


@dataclass(frozen=True)
class Entry:
    """One line of a database: what is called, with tensors of which dtype."""

    kind: Kind
    name: str
    dtype: str

    def __str__(self) -> str:
        recorded = {"trace": ", traced", "export": ", exported"}
        return f"{self.name} {self.dtype}{recorded.get(self.kind, '')}"

    @property
    def in_tenth(self) -> bool:
        """Return True if `make test-all` runs it: decided by its name, so that a new torch moves no other entry."""
        return int.from_bytes(hashlib.sha256(str(self).encode()).digest()[:8], "big") % SHARE == 0


@dataclass
class Outcome:
    """The outcome of an entry: the number of calls on the CPU, and those that differed or raised on the chip."""

    calls: int = 0
    backwards: int = 0
    failed: int = 0
    refused: int = 0
    rounded: int = 0
    failures: list[str] = field(default_factory=list)

    def fail(self, what: str) -> None:
        """Count a failure, and keep the first few in words."""
        self.failed += 1
        self.refused += REFUSAL.search(what) is not None
        self.rounded += what.endswith(ROUNDED)
        if len(self.failures) < SAID:
            self.failures.append(what)


def read_entries() -> list[Entry]:
    """Return what the databases of the installed torch list, ordered by name.

    A child process reads them, for seconds: importing them changes settings of torch for the whole process.
    """
    command = [sys.executable, "-W", "ignore", "-m", "tests.ops.entries"]
    listing = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [Entry(*line) for line in json.loads(listing.stdout)]


def _list() -> None:
    from tests.ops import layers, operators, optimizers, overloads, traces

    listed = {
        "operator": operators.listed(DTYPES),
        "overload": overloads.listed(),
        "layer": layers.listed(DTYPES),
        "optimizer": optimizers.listed(DTYPES),
        "trace": traces.listed_traces(DTYPES),
        "export": traces.listed_exports(DTYPES),
    }
    print(
        json.dumps(
            sorted(((kind, *each) for kind, found in listed.items() for each in found), key=lambda each: each[1:])
        )
    )


if __name__ == "__main__":
    _list()
