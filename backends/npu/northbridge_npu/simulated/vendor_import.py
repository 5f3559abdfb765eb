"""Effects of ``import torch_npu``, which touches no NPU."""

from __future__ import annotations

import os

from northbridge_npu.simulated.record import RECORD
from northbridge_npu.simulated.settings import NPUSimSettings

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_CANN = "/usr/local/Ascend/ascend-toolkit/latest"
"""Where ``set_env.sh``, which a shell on such a machine has sourced, says that CANN is."""

_BEFORE = os.environ.get(_AUTOLOAD, "1")


def begin() -> None:
    """Turn torch's entry points off, as the import does at first."""
    RECORD.note(_AUTOLOAD, "write")
    os.environ[_AUTOLOAD] = "0"


def load() -> None:
    """Make the simulated NPUs torch's devices ``npu``. Raises ImportError without CANN."""
    if not NPUSimSettings.read().cann:
        raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")
    import torch.distributed
    import torch.profiler
    import torch_npu.npu

    import northbridge_cpu_sim
    from northbridge_npu.simulated import casts, machine

    os.environ.setdefault("ASCEND_HOME_PATH", _CANN)
    RECORD.note("ASCEND_HOME_PATH", "write")
    northbridge_cpu_sim.install(
        # Without visible devices, one device exists but is not counted.
        machine.npu(),
        visible=max(1, len(machine.visible())),
        module=torch_npu.npu,
    )
    casts.register()
    # As the vendor does: two libraries, the first of which is the default for npu.
    creator = torch.distributed.Backend._plugins["HCCL"].creator_fn
    torch.distributed.Backend.register_backend("lccl", creator, extended_api=True, devices=["npu"])
    activity = torch.profiler.ProfilerActivity
    activity.NPU = activity.PrivateUse1  # type: ignore[attr-defined]


def end() -> None:
    """Put torch's switch back; earlier releases leave that to torch, which calls the entry point at its own import."""
    if NPUSimSettings.read().restores:
        put_switch_back()


def put_switch_back() -> None:
    """Put torch's switch back, for the processes that this one starts."""
    os.environ[_AUTOLOAD] = _BEFORE
