"""The markers that end a graph in lazy mode."""

from __future__ import annotations

import logging

from northbridge_hpu.simulated.mode import is_lazy

placed = 0
"""How many markers this process has set, ``synchronize()``'s included."""


def mark_step(device_str: str = "", sync: bool = False) -> None:  # noqa: ARG001 - the vendor's signature
    """End the graph that has been gathered, and start it; without any effect in eager mode."""
    global placed
    if is_lazy():
        placed += 1


def announce() -> None:
    """Say in the log that markers do nothing in eager mode, as the vendor's import does."""
    log = logging.getLogger("habana_frameworks")
    log.addHandler(logging.NullHandler())  # a script that configures logging sees it, and no other
    if not is_lazy():
        log.warning("mark_step has no effect in eager mode")
