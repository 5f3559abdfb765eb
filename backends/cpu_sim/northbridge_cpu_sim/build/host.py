"""Requirements of the simulated chip: the operating system and torch's version."""

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
