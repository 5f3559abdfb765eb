"""The chip's activity in Lightning's PyTorchProfiler, which profiles only the CPU and CUDA by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.device import Device, is_renamed
from northbridge.discovery.current import loaded

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity


class Unasked(list[Any]):
    """Activities that Lightning chose because the user named none."""


def add_chip(profiler_kwargs: dict[str, Any]) -> None:
    """Add the activity of the chip that this process has loaded, unless the user named the activities.

    Called when the profile begins: the profiler may be created before the chip is loaded.
    """
    chosen, chip = profiler_kwargs.get("activities"), loaded()
    if not isinstance(chosen, Unasked) or chip is None or chip.capabilities.profiler.denied:
        return
    activity = activity_of(chip.device)
    if activity is not None and activity not in chosen:
        chosen.append(activity)


def activity_of(device: Device) -> ProfilerActivity | None:
    """Return the activity of a chip in torch's profiler; None if it does not record the chip."""
    import torch.profiler

    module: Any = torch.profiler
    name = "PrivateUse1" if is_renamed(device.type) else device.type.upper()
    activity: ProfilerActivity | None = getattr(module.ProfilerActivity, name, None)
    return activity if activity in module.supported_activities() else None
