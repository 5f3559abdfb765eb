"""The chip's activity in Lightning's PyTorchProfiler, which profiles only the CPU and CUDA by itself."""

from __future__ import annotations

from typing import Any

from northbridge.discovery.current import loaded


class Unasked(list[Any]):
    """Activities that Lightning chose because the user named none."""


def add_chip(profiler_kwargs: dict[str, Any]) -> None:
    """Add the activity of the chip that this process has loaded, unless the user named the activities.

    Called when the profile begins: the profiler may be created before the chip is loaded.
    """
    chosen, chip = profiler_kwargs.get("activities"), loaded()
    if not isinstance(chosen, Unasked) or chip is None or chip.capabilities.profiler.denied:
        return
    activity = chip.acceleration.profiler_activity()
    if activity is not None and activity not in chosen:
        chosen.append(activity)
