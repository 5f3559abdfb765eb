"""The chip's work in Lightning's PyTorchProfiler, which profiles only the CPU and CUDA by itself."""

from __future__ import annotations

import os
from typing import Any

from northbridge.discovery.current import loaded
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.profilers.profile import _TracedProfileMixin, traced
from northbridge.lightning.profilers.summary import show
from northbridge.lightning.vendor_names.profiler import ProfilerName


class Unasked(list[Any]):
    """Activities that Lightning chose because the user named none."""


def add_chip(profiler_kwargs: dict[str, Any]) -> None:
    """Add the activity of the chip that this process has loaded, unless the user named the activities.

    Called when the profile begins: the profiler may be created before the chip is loaded. Some vendors replace torch's
    enumeration, so each activity is looked up again by its name.
    """
    chosen, chip = profiler_kwargs.get("activities"), loaded()
    if chosen is None or chip is None:
        return
    import torch.profiler

    known: Any = torch.profiler.ProfilerActivity
    activities = [getattr(known, str(getattr(each, "name", "")), each) for each in chosen]
    if not chip.capabilities.profiler.denied:
        activity = chip.acceleration.profiler_activity()
        if isinstance(chosen, Unasked) and activity is not None and activity not in activities:
            activities.append(activity)
    profiler_kwargs["activities"] = Unasked(activities) if isinstance(chosen, Unasked) else activities


def choose_profile(profile: Any) -> Any:
    """Return the class to profile with: one that keeps the traces, if this process has loaded a chip."""
    import torch.profiler

    return traced(profile) if loaded() is not None and issubclass(profile, torch.profiler.profile) else profile


def has_recorded(profile: Any) -> bool:
    """Return False for a profile whose schedule never came to a step to record; torch raises if asked for events."""
    return not isinstance(profile, _TracedProfileMixin) or getattr(profile, "profiler", None) is not None


def add_device_events(profiler: Any, profile: Any, report: str) -> str:
    """Return Lightning's ``report`` with the table of the chip's events, or the reason why there is none."""
    chip = loaded()
    if chip is None or not isinstance(profile, _TracedProfileMixin):
        return report
    claim = chip.capabilities.profiler
    activity = None if claim.denied else chip.acceleration.profiler_activity()
    if activity is not None and activity not in profiler._profiler_kwargs["activities"]:
        return report  # the user named the activities, without the chip's
    if claim.denied:
        said = f"none: {chip.name!r} cannot be profiled: {claim.reason}"
    elif profile.traces:
        said = show(profile.traces, profiler._row_limit)
    elif profile.problems:
        said = "none could be read"
    else:
        said = (
            "none: the run ended before the first step that the schedule records. Fix: lower wait= and warmup= of the"
            " schedule, or run more steps"
        )
    block = profiler._stats_to_str({f"device events of {chip.name}": "\n".join([said, *profile.problems])})
    return f"{report}{os.linesep}{block.partition(os.linesep)[2]}" if report else block


def settle_profiler(namespace: Namespace, trainer: Any, profiler: Any) -> Any:
    """Convert a vendor's name for the profiler to that of ``namespace``.

    Raises :class:`UnsupportedError` if the Trainer does not run on that vendor's chip.
    """
    if not isinstance(profiler, ProfilerName) or not profiler.backend_name:
        return profiler
    found = getattr(trainer.accelerator, "backend_name", type(trainer.accelerator).__name__)
    if found != profiler.backend_name:
        raise UnsupportedError(
            f"{type(profiler).__name__} is for {profiler.backend_name!r}, not for accelerator={found!r}. Fix:"
            " profiler='pytorch'",
            capability="profiler",
        )
    return profiler.settle(namespace)
