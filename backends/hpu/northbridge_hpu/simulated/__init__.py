"""A simulated Gaudi server: the stand-ins that ``NORTHBRIDGE_SIMULATE=hpu`` uses for the vendor's software.

``vendor_import.py`` has the table of the vendor's modules and their names, which the modules beside it implement. They
follow what is public about the vendor's software, and copy none of its code.
"""

from __future__ import annotations

import northbridge
import northbridge_cpu_sim
from northbridge_hpu.simulated.machine import HPUSimSettings


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """Declare the stand-ins for the vendor's software."""
    return northbridge.Simulation(
        {
            "habana_frameworks": f"{__name__}.vendor_import",
            "habana_dataloader": f"{__name__}.image_loaders",
            "pyhlml": f"{__name__}.management",
        },
        chip="Gaudi",
        instead={
            "habana_frameworks.torch.gpu_migration": 'without gpu_migration, write torch.hpu and device "hpu"',
        },
        dev=lambda: HPUSimSettings.read().folder,
        autoloads=("habana_frameworks.autoload",),  # in the vendor's mode, and by the vendor's variable
        found={"ray._private.accelerators.hpu": "HPU_PACKAGE_AVAILABLE"},  # a Ray worker imports Ray before torch
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
    )
