"""Faults in what a profiler records of the device."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import northbridge
import northbridge_right as right


@right.wrong
class ProfilerDropsARank(northbridge.Acceleration):
    """The last of several ranks records only the host."""

    def profiler_activity(self) -> Any:
        dropped = os.environ.get("LOCAL_RANK", "0") != "0"
        return None if dropped else super().profiler_activity()


@right.wrong
class ProfilerRecordsTheHost(northbridge.Acceleration):
    """The activity is the CPU's."""

    def profiler_activity(self) -> Any:
        from torch.profiler import ProfilerActivity

        return ProfilerActivity.CPU


@right.instead_of("torch.profiler.profile.export_chrome_trace")
def profiler_measures_no_time(rightly: Any, self: Any, path: str, *given: Any, **named: Any) -> None:
    """Every event of the device takes no time."""
    rightly(self, path, *given, **named)
    trace = json.loads(Path(path).read_text())
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] = 0
    Path(path).write_text(json.dumps(trace))
