"""Effects of ``import torch_npu``, which touches no NPU."""

from __future__ import annotations

import os
import sys

from northbridge_npu.simulated.record import RECORD
from northbridge_npu.simulated.settings import NPUSimSettings

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_BEFORE = os.environ.get(_AUTOLOAD, "1")


def begin() -> bool:
    """Turn torch's entry points off, as the import does at first; return True if torch was imported already."""
    RECORD.note(_AUTOLOAD, "write")
    os.environ[_AUTOLOAD] = "0"
    return "torch" in sys.modules


def load() -> None:
    """Make the simulated NPUs torch's devices ``npu``. Raises ImportError without CANN."""
    if not NPUSimSettings.read().cann:
        raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")
    import torch.profiler
    import torch_npu.npu

    import northbridge_cpu_sim
    from northbridge_npu.simulated import machine

    northbridge_cpu_sim.install(
        # Without visible devices, one device exists but is not counted.
        machine.npu(),
        visible=max(1, len(machine.visible())),
        module=torch_npu.npu,
    )
    activity = torch.profiler.ProfilerActivity
    activity.NPU = activity.PrivateUse1  # type: ignore[attr-defined]


def end(*, with_torch: bool) -> None:
    """Put torch's switch back; earlier releases did so only where ``import torch`` had called their entry point."""
    if with_torch or NPUSimSettings.read().restores:
        os.environ[_AUTOLOAD] = _BEFORE
