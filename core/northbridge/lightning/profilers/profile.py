"""The chip's work in Lightning's PyTorchProfiler, which profiles only the CPU and CUDA by itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch.profiler

from northbridge.discovery.current import loaded
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.profilers.trace import Trace, TraceError, read_trace, show
from northbridge.lightning.vendor_names.plugins import ProfilerName

Original = Callable[..., Any]


class Unasked(list[Any]):
    """Activities that Lightning chose because the user named none."""


def mark_activities(namespace: Namespace, original: Original, self: Any) -> list[Any]:
    return Unasked(original(self))


def profile_chip(namespace: Namespace, original: Original, self: Any) -> None:
    add_chip(self._profiler_kwargs)
    original(self)


def add_chip(profiler_kwargs: dict[str, Any]) -> None:
    """Add the activity of the chip that this process has loaded, unless the user named the activities.

    Called when the profile begins: the profiler may be created before the chip is loaded. Some vendors replace torch's
    enumeration, so each activity is looked up again by its name.
    """
    chosen, chip = profiler_kwargs.get("activities"), loaded()
    if chosen is None or chip is None:
        return
    known: Any = torch.profiler.ProfilerActivity
    activities = [getattr(known, str(getattr(each, "name", "")), each) for each in chosen]
    if not chip.capabilities.profiler.denied:
        activity = chip.acceleration.profiler_activity()
        if isinstance(chosen, Unasked) and activity is not None and activity not in activities:
            activities.append(activity)
    profiler_kwargs["activities"] = Unasked(activities) if isinstance(chosen, Unasked) else activities


def keep_traces(namespace: Namespace, original: Original, self: Any, kind: Any) -> Any:
    keeps = loaded() is not None and issubclass(kind, torch.profiler.profile)
    return original(self, traced(kind) if keeps else kind)


def cache_events(namespace: Namespace, original: Original, self: Any) -> None:
    if isinstance(self.profiler, _TracedProfileMixin) and getattr(self.profiler, "profiler", None) is None:
        self.function_events = None  # the schedule never came to a step to record: torch would raise an error
    else:
        original(self)


def summarize_profile(namespace: Namespace, original: Original, self: Any) -> str:
    """Return Lightning's report with the table of the chip's events, or the reason why there is none."""
    profile = self.profiler  # the original drops it
    report: str = original(self)
    chip = loaded()
    if chip is None or not isinstance(profile, _TracedProfileMixin):
        return report
    claim = chip.capabilities.profiler
    activity = None if claim.denied else chip.acceleration.profiler_activity()
    if activity is not None and activity not in self._profiler_kwargs["activities"]:
        return report  # the user named the activities, without the chip's
    if claim.denied:
        said = f"none: {chip.name!r} cannot be profiled: {claim.reason}"
    elif profile.traces:
        said = show(profile.traces, self._row_limit)
    elif profile.problems:
        said = "none could be read"
    else:
        said = (
            "none: the run ended before the first step that the schedule records. Fix: lower wait= and warmup= of the"
            " schedule, or run more steps"
        )
    block = self._stats_to_str({f"device events of {chip.name}": "\n".join([said, *profile.problems])})
    return f"{report}{os.linesep}{block.partition(os.linesep)[2]}" if report else block


def init_profiler(namespace: Namespace, original: Original, trainer: Any, profiler: Any) -> None:
    """Convert a vendor's name for the profiler. Raises :class:`UnsupportedError` on another chip than that vendor's."""
    if not isinstance(profiler, ProfilerName) or not profiler.backend_name:
        original(trainer, profiler)
        return
    found = getattr(trainer.accelerator, "backend_name", type(trainer.accelerator).__name__)
    if found != profiler.backend_name:
        raise UnsupportedError(
            f"{type(profiler).__name__} is for {profiler.backend_name!r}, not for accelerator={found!r}. Fix:"
            " profiler='pytorch'",
            capability="profiler",
        )
    original(trainer, profiler.settle(namespace))


class _TracedProfileMixin:
    """Reads each trace as soon as it is complete: torch keeps only the last, and exports it once."""

    _handler: Callable[[Any], Any] | None = None
    _exported: Path | None = None

    # No __init__: Lightning reads the parameters of the vendor's.
    @cached_property
    def traces(self) -> list[Trace]:
        """The traces so far, without those that could not be read."""
        return []

    @cached_property
    def problems(self) -> list[str]:
        """Why traces could not be read."""
        return []

    @property
    def on_trace_ready(self) -> Callable[[Any], None]:
        """The handler that torch calls: it calls the user's, and reads the trace."""
        return self._read

    @on_trace_ready.setter
    def on_trace_ready(self, handler: Callable[[Any], Any] | None) -> None:
        self._handler = handler

    def export_chrome_trace(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Export the trace, and remember where it is."""
        returned = super().export_chrome_trace(path, *args, **kwargs)  # type: ignore[misc]  # of torch's profile
        self._exported = Path(path)
        return returned

    def _read(self, profile: Any) -> None:
        self._exported = None
        if self._handler is not None:
            self._handler(profile)
        with tempfile.TemporaryDirectory() as folder:
            try:
                if self._exported is None:
                    self.export_chrome_trace(str(Path(folder, "trace.json")))
                assert self._exported is not None
                self.traces.append(read_trace(self._exported))
            except TraceError as error:
                self.problems.append(str(error))
            except RuntimeError as error:  # torch's, if the handler has exported the trace in another way
                self.problems.append(
                    f"the trace cannot be exported: {error} Fix: call the profile's export_chrome_trace"
                    " in on_trace_ready="
                )


@cache
def traced(profile: type) -> Any:
    """Return the class ``profile``, which is ``torch.profiler.profile`` or derived from it, with our mixin."""
    return type(profile.__name__, (_TracedProfileMixin, profile), {"__module__": profile.__module__})
