"""Effects of ``import torch`` where torch was built for Intel's GPUs, which touch no device.

``torch/xpu`` is executed anew, unchanged, over stand-ins for the names of ``torch._C`` that a build without XPU lacks.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import torch

import northbridge
import northbridge_cpu_sim
from northbridge_xpu.simulated import devices, machine

_NAME = re.compile(r"_(has_xpu$|xpu_|Xpu|XPU)")
_SOURCES = Path(__file__).with_name("csrc")


def names() -> dict[str, object]:
    """Return the stand-ins, by their names in ``torch._C``."""
    return {name: value for name, value in vars(devices).items() if _NAME.match(name)}


def load() -> None:
    """Make the simulated GPU torch's device ``xpu``. Raises :class:`northbridge.SimulationError` on a real build."""
    if torch.xpu._is_compiled():
        raise northbridge.SimulationError(
            f"NORTHBRIDGE_SIMULATE=xpu, but torch {torch.__version__} was built for Intel's GPUs. Fix: unset it",
            backend="xpu",
        )
    northbridge_cpu_sim.install(
        machine.device(),
        sources=_SOURCES,
        # Without visible devices, one device exists but is not counted.
        visible=max(1, len(machine.visible())),
        module=torch.xpu,
    )
    for name, value in names().items():
        setattr(torch._C, name, value)
    if torch.cuda._is_compiled():  # a torch with XPU is not, and some of its files rely on that
        del torch._C._cuda_getDeviceCount
    for name in [name for name in sys.modules if name.startswith("torch.xpu.")]:
        del sys.modules[name]
    importlib.reload(torch.xpu)


load()
