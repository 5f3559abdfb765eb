"""The chip's activity in Lightning's PyTorchProfiler, which by itself asks torch for the CPU's and CUDA's alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.device import Device, is_renamed
from northbridge.discovery.current import loaded

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity


class Unasked(list[Any]):
    """Activities that Lightning has chosen, as the user named none."""


def add_chip(profiler_kwargs: dict[str, Any]) -> None:
    """Add the activity of the chip that this process has loaded, unless the user has named the activities.

    Called when the profile begins, and not when the profiler is made, before the chip may have come.
    """
    chosen, chip = profiler_kwargs.get("activities"), loaded()
    if not isinstance(chosen, Unasked) or chip is None or chip.capabilities.profiler.denied:
        return
    activity = activity_of(chip.device)
    if activity is not None and activity not in chosen:
        chosen.append(activity)


def activity_of(device: Device) -> ProfilerActivity | None:
    """Return what torch's profiler calls the activity of a chip; None where it records none."""
    import torch.profiler

    module: Any = torch.profiler
    name = "PrivateUse1" if is_renamed(device.type) else device.type.upper()
    activity: ProfilerActivity | None = getattr(module.ProfilerActivity, name, None)
    return activity if activity in module.supported_activities() else None
