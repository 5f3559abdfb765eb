"""A simulated Gaudi server: the stand-ins that ``NORTHBRIDGE_SIMULATE=hpu`` uses for the vendor's software.

``habana_frameworks/`` and ``pyhlml.py`` hold only the vendor's names; the modules beside them implement these.
Everything is derived from ``contract.toml``, not from the vendor's code.
"""

from __future__ import annotations

from pathlib import Path

import northbridge
import northbridge_cpu_sim
from northbridge_hpu.simulated.settings import HPUSimSettings

_HERE = Path(__file__).parent


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """Declare the stand-ins for the vendor's software."""
    return northbridge.Simulation(
        {
            "habana_frameworks": _HERE / "habana_frameworks",
            "habana_dataloader": _HERE / "habana_dataloader.py",
            "pyhlml": _HERE / "pyhlml.py",
        },
        chip="Gaudi",
        page="docs/simulated-gaudi.md",
        instead={
            "habana_frameworks.torch.gpu_migration": 'without gpu_migration, write torch.hpu and device "hpu"',
        },
        dev=lambda: HPUSimSettings.read().folder,
        autoloads=("habana_frameworks.autoload",),  # in the vendor's mode, and by the vendor's variable
        found={"ray._private.accelerators.hpu": "HPU_PACKAGE_AVAILABLE"},  # a Ray worker imports Ray before torch
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
    )
