"""The streams of a device, as in `torch.cuda.streams`.

Work ends before a call returns. If streams are deferred, copies and collectives wait instead.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Event as Event, Stream as Stream

from northbridge_cpu_sim.module import chip
from northbridge_cpu_sim.module.chip import DeviceLike


def synchronize(device: DeviceLike = None) -> None:
    """Wait for a device's deferred copies and collectives. Kernels never have to be waited for."""
    torch.accelerator.synchronize(chip.index(device))


def current_stream(device: DeviceLike = None) -> Stream:
    """Return this thread's current stream on a device."""
    return torch.accelerator.current_stream(chip.index(device))


def default_stream(device: DeviceLike = None) -> Stream:
    """Return the default stream of a device."""
    of = torch.accelerator.current_stream(chip.index(device))
    return Stream(stream_id=0, device_index=of.device_index, device_type=of.device_type)


def set_stream(stream: Stream) -> None:
    """Make a stream, and its device, this thread's current ones."""
    torch.accelerator.set_stream(stream)


def stream(stream: Stream | None) -> contextlib.AbstractContextManager[Any]:
    """Make a stream the current one inside the `with`; None changes nothing."""
    return contextlib.nullcontext() if stream is None else stream
