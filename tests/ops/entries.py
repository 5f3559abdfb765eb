"""The entries of torch's databases: each operator, layer and optimizer with each dtype that is compared."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["operator", "overload", "layer", "optimizer", "trace", "export"]

DTYPES = ("float32", "bfloat16", "float16", "int64", "bool", "complex64")
ROOT = Path(__file__).parents[2]
"""Where `tests` can be imported."""

SHARE = 10
"""One entry in so many belongs to the tenth that `make test-all` runs."""


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


def read_entries() -> list[Entry]:
    """Return what the databases of the installed torch list, ordered by name.

    A child process reads them, for seconds: importing them changes settings of torch for the whole process.
    """
    command = [sys.executable, "-W", "ignore", "-m", "tests.ops.entries"]
    listing = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [Entry(*line) for line in json.loads(listing.stdout)]


def _list() -> None:
    from tests.ops import layers, operators, optimizers, overloads, traces

    entries = [("operator", name, dtype) for name, dtype in operators.listed(DTYPES)]
    entries += [("overload", name, dtype) for name, dtype in overloads.listed()]
    entries += [("layer", name, dtype) for name, dtype in layers.listed(DTYPES)]
    entries += [("optimizer", name, dtype) for name, dtype in optimizers.listed(DTYPES)]
    entries += [("trace", name, dtype) for name, dtype in traces.listed_traces(DTYPES)]
    entries += [("export", name, dtype) for name, dtype in traces.listed_exports(DTYPES)]
    print(json.dumps(sorted(entries, key=lambda entry: entry[1:])))


if __name__ == "__main__":
    _list()
