"""A process that runs entries: one is asked for in a line of stdin, its outcome is a line of JSON on stdout."""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import asdict
from typing import Any


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # an operator's output is not an answer
    from tests.ops.calls import CHIP, Outcome

    import northbridge

    northbridge.load(CHIP)
    import torch

    torch.set_num_threads(1)
    from tests.ops import layers, operators, optimizers, traces

    run: dict[str, Any] = {
        "operator": operators.run,
        "layer": layers.run,
        "optimizer": optimizers.run,
        "trace": traces.run_trace,
        "export": traces.run_export,
    }
    for line in sys.stdin:
        kind, name, dtype = json.loads(line)
        try:
            outcome = asdict(run[kind](name, dtype))
        except Exception:  # noqa: BLE001 - the test's own, told as a failure of the entry
            outcome = asdict(Outcome(calls=1, failed=1, failures=[traceback.format_exc(limit=-3)]))
        answers.write(json.dumps(outcome) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
