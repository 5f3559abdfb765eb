"""Cost of our strategy and accelerator in each step, against Lightning's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench import child
from bench.figure import Measurement
from bench.job import Job, worker
from bench.plugin import announce
from bench.rounds import interleave, ratio


def measure_strategy(*, quick: bool) -> Measurement:
    """Fit in turn through our strategy and Lightning's, both over CPU tensors, in one process.

    On a chip, what its operators cost would be measured with it: a model of one parameter is hardly more than a dozen
    operators. So our side's chip is the CPU (:mod:`bench.host_backend`), found by name as any other. It changes nothing
    in the process, which can therefore be the same for both, as it has to be: where memory lies moves Python's speed by
    more than the bound.
    """
    host, cpu = (Job("one-parameter", accelerator, 300, threads=1) for accelerator in ("host", "cpu"))
    with tempfile.TemporaryDirectory() as site:
        announce(Path(site), "host", "bench.host_backend")
        with worker({"PYTHONPATH": os.pathsep.join([site, str(child.ROOT)])}) as ask:
            pairs = interleave(lambda: ask(host).step_seconds, lambda: ask(cpu).step_seconds, 5 if quick else 15)
    return ratio(pairs, ("ours", "Lightning's"), "µs", 1e6)
