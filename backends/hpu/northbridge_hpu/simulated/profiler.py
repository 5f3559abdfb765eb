"""torch's profiler: the card's events do not pass through Kineto, but are added to the exported file."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.profiler

from northbridge_cpu_sim import Kernel, record_kernels, recorded_kernels
from northbridge_hpu.simulated.devices import _lazy_init, get_device_name, memory_reserved
from northbridge_hpu.simulated.machine import RECORD, variable

_ROW = 0
"""The number of the card's row in the trace."""

_stock = torch.profiler.ProfilerActivity
_pending: list[Kernel] = []


class ProfilerActivity(enum.Enum):
    """The vendor's activities, which take the place of torch's."""

    CPU = 1
    CUDA = 2
    HPU = 3


class DebugActivity(enum.Enum):
    """Further events of the host, of which the simulation has none."""

    SYNAPSE_FUNCTION_CALLS = 1
    BRIDGE_FUNCTION_CALLS = 2


_MEANT = {ProfilerActivity.CPU: _stock.CPU, ProfilerActivity.CUDA: _stock.CUDA}


class HabanaProfile(torch.profiler.profile):
    """torch's profile of the host, with a recording of the card beside it if HPU is among the activities."""

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        debug_activities: Iterable[DebugActivity] | None = None,
        schedule: Callable[[int], torch.profiler.ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        use_cuda: bool | None = None,
    ) -> None:
        RECORD.note("torch.profiler.profile", "call")
        chosen = (ProfilerActivity.CPU, ProfilerActivity.HPU) if activities is None else tuple(activities)
        self._records_card = ProfilerActivity.HPU in chosen
        super().__init__(
            # torch knows no other activity, and refuses an empty list.
            activities=[_MEANT[each] for each in chosen if each in _MEANT] or [_stock.CPU],
            schedule=schedule,
            on_trace_ready=on_trace_ready,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            use_cuda=use_cuda,
        )

    def start_trace(self) -> None:
        if self._records_card:
            _start()
        super().start_trace()

    def stop_trace(self) -> None:
        super().stop_trace()
        if self._records_card:
            _pending.extend(recorded_kernels())


class HabanaAutogradProfile(torch.autograd.profiler.profile):
    """torch's profile of autograd, which adds the card's events to the file that it exports."""

    def export_chrome_trace(self, path: str, *args: Any, **kwargs: Any) -> None:
        RECORD.note("torch.autograd.profiler.profile", "call")
        super().export_chrome_trace(path, *args, **kwargs)  # type: ignore[no-untyped-call]
        _add_to(Path(path))


def replace() -> None:
    """Replace ``torch.profiler.profile`` and ``ProfilerActivity``, and ``torch.autograd.profiler.profile``."""
    for owner, name, value in (
        (torch.profiler, "profile", HabanaProfile),
        (torch.profiler, "ProfilerActivity", ProfilerActivity),
        (torch.autograd.profiler, "profile", HabanaAutogradProfile),
    ):
        setattr(owner, name, value)


def _start() -> None:
    if variable("HABANA_PROFILE") in (None, "0"):
        print("HPU hardware profiling is disabled: HABANA_PROFILE is not set", file=sys.stderr)
    else:
        _lazy_init()
        record_kernels()


def _add_to(path: Path) -> None:
    """Add the recorded kernels to the trace, each once: a second file does not get them again."""
    if not _pending:
        return
    trace = json.loads(path.read_text())
    begin = int(trace.get("baseTimeNanoseconds", 0))
    row = {"ph": "M", "ts": 0.0, "pid": _ROW, "tid": 0}
    named = ("process_name", {"name": "/device:HPU:0"}), ("process_labels", {"labels": "/device:HPU:0"})
    trace["traceEvents"] += [{**row, "name": name, "args": args} for name, args in named]
    trace["traceEvents"] += [_event(kernel, begin) for kernel in _pending]
    trace.setdefault("deviceProperties", []).append({"name": get_device_name(), "totalGlobalMem": memory_reserved()})
    path.write_text(json.dumps(trace))
    _pending.clear()


def _event(kernel: Kernel, begin: int) -> dict[str, object]:
    return {
        "ph": "X",
        "cat": "Memcpy" if kernel.name == "hpu::copy_" else "Kernel",
        "name": kernel.name,
        "pid": _ROW,
        "tid": kernel.stream,
        "ts": (kernel.start - begin) / 1000,
        "dur": (kernel.end - kernel.start) / 1000,
        "args": {"device": _ROW},
    }
