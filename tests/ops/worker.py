"""A process that runs entries: one is asked for in a line of stdin, its outcome is a line of JSON on stdout."""

from __future__ import annotations

import json
import os
import pkgutil
import sys
import traceback
from dataclasses import asdict

RUN = {
    "operator": "operators.run",
    "overload": "overloads.run",
    "layer": "layers.run",
    "optimizer": "optimizers.run",
    "trace": "traces.run_trace",
    "export": "traces.run_export",
}
"""Imported when they are asked for: a fork is cheaper before torch's databases are there."""


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # an operator's output is not an answer
    from tests.ops.calls import CHIP, Outcome

    import northbridge

    northbridge.load(CHIP)
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        kind, name, dtype = json.loads(line)
        try:
            outcome = asdict(pkgutil.resolve_name(f"tests.ops.{RUN[kind]}")(name, dtype))
        except Exception:  # noqa: BLE001 - the test's own, told as a failure of the entry
            outcome = asdict(Outcome(calls=1, failed=1, failures=[traceback.format_exc(limit=-3)]))
        answers.write(json.dumps(outcome) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
