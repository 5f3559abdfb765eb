"""The markers that end a graph in lazy mode."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from northbridge_cpu_sim import mark_graph
from northbridge_hpu.simulated import metrics_files
from northbridge_hpu.simulated.mode import is_lazy

placed = 0
"""Number of markers that this process has set, including those of ``synchronize()``."""


def mark_step(device_str: str = "", sync: bool = False) -> None:  # noqa: ARG001 - the vendor's signature
    """End the recorded graph, start it, and call what waits for its end; no effect in eager mode."""
    global placed
    if is_lazy():
        placed += 1
        waiting = _closures.copy()
        _closures.clear()
        for closure in waiting:
            closure()
        mark_graph()
        metrics_files.write(metrics_files.Trigger.mark_step)


_closures: list[Callable[[], Any]] = []


def add_step_closure(closure: Callable[..., Any], args: tuple[Any, ...] = ()) -> None:
    """Call ``closure(*args)`` at the end of the next marker; no effect in eager mode, which has none."""
    if is_lazy():
        _closures.append(lambda: closure(*args))


def _mark_step_if_lazy() -> None:
    mark_step()


def announce() -> None:
    """Log that markers do nothing in eager mode, as the vendor's import does."""
    log = logging.getLogger("habana_frameworks")
    log.addHandler(logging.NullHandler())  # shown only if logging is configured
    if not is_lazy():
        log.warning("mark_step has no effect in eager mode")
