"""Faults in what a profiler records of the device."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import northbridge
import northbridge_right as right


@right.wrong("C3/Profilers/test_trace_and_table_of_each_rank_have_device_time")
class ProfilerDropsARank(northbridge.Acceleration):
    """A profiler drops a rank."""

    def profiler_activity(self) -> Any:
        dropped = os.environ.get("LOCAL_RANK", "0") != "0"
        return None if dropped else super().profiler_activity()


@right.wrong("C2/Profilers/test_trace_and_table_of_each_rank_have_device_time")
class ProfilerRecordsTheHost(northbridge.Acceleration):
    """A profiler records only the host."""

    def profiler_activity(self) -> Any:
        from torch.profiler import ProfilerActivity

        return ProfilerActivity.CPU


@right.caught_by("C2/Profilers/test_trace_and_table_of_each_rank_have_device_time")
@right.instead_of("torch.profiler.profile.export_chrome_trace")
def profiler_measures_no_time(rightly: Any, self: Any, path: str, *given: Any, **named: Any) -> None:
    """A profiler's events take no time."""
    rightly(self, path, *given, **named)
    trace = json.loads(Path(path).read_text())
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] = 0
    Path(path).write_text(json.dumps(trace))
