"""Requirements of the simulated chip: the operating system, torch's version, and no other accelerator."""

from __future__ import annotations

import platform

import torch
from packaging.version import Version

from northbridge_cpu_sim.errors import HostError


def check_host() -> None:
    """Raise :class:`HostError` unless this is Linux with torch 2.13 or later.

    Called before the import of modules of ours that need a newer torch.
    """
    if platform.system() != "Linux":
        raise HostError(f"the simulated chip needs Linux, found {platform.system()}. Fix: use a container or WSL")
    if Version(torch.__version__).release < (2, 13):
        raise HostError(
            f"the simulated chip needs torch 2.13 or later, found {torch.__version__}. Fix: pip install 'torch>=2.13'"
        )


def check_sole_accelerator(device_type: str) -> None:
    """Raise :class:`HostError` if torch has another accelerator here: it refuses a second one with a key of its own.

    An accelerator without a device here does no harm, even if torch was built for it: see ``device/hooks.h``.
    """
    other = torch.accelerator.current_accelerator(check_available=True)
    if other is not None and other.type != device_type:
        raise HostError(
            f"torch {torch.__version__} has a {other.type!r} device here, beside which it refuses {device_type!r}."
            f" Fix: hide the device, or pip install torch=={Version(torch.__version__).base_version} --index-url"
            " https://download.pytorch.org/whl/cpu"
        )
