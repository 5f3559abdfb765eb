"""The markers that end a graph in lazy mode."""

from __future__ import annotations

import logging

from northbridge_cpu_sim.module import operator_trace
from northbridge_hpu.simulated import metrics_files
from northbridge_hpu.simulated.mode import is_lazy

placed = 0
"""Number of markers that this process has set, including those of ``synchronize()``."""


def mark_step(device_str: str = "", sync: bool = False) -> None:  # noqa: ARG001 - the vendor's signature
    """End the recorded graph, and start it; no effect in eager mode."""
    global placed
    if is_lazy():
        placed += 1
        operator_trace.mark()
        metrics_files.write(metrics_files.Trigger.mark_step)


def announce() -> None:
    """Log that markers do nothing in eager mode, as the vendor's import does."""
    log = logging.getLogger("habana_frameworks")
    log.addHandler(logging.NullHandler())  # shown only if logging is configured
    if not is_lazy():
        log.warning("mark_step has no effect in eager mode")
