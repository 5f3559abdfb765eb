"""Requirements of the simulated chip: the operating system and torch."""

from __future__ import annotations

import platform

import torch
from packaging.version import Version

from northbridge_cpu_sim.errors import HostError


def check_host() -> None:
    """Raise :class:`HostError` elsewhere than on Linux, and below torch 2.13.

    To be called before modules of ours are imported that need what only a newer torch has.
    """
    if platform.system() != "Linux":
        raise HostError(f"the simulated chip needs Linux, found {platform.system()}. Fix: use a container or WSL")
    if Version(torch.__version__).release < (2, 13):
        raise HostError(
            f"the simulated chip needs torch 2.13 or later, found {torch.__version__}. Fix: pip install 'torch>=2.13'"
        )
