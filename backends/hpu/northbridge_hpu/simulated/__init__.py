"""A Gaudi server that is not there: what ``NORTHBRIDGE_SIMULATE=hpu`` puts in the place of the vendor's software.

``habana_frameworks/`` and ``pyhlml.py`` hold the vendor's names and nothing else; what the names do is in the modules
beside them. All of it is made from ``contract.toml``, and from no line of the vendor's code.
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
        {"habana_frameworks": _HERE / "habana_frameworks", "pyhlml": _HERE / "pyhlml.py"},
        dev=lambda: HPUSimSettings.read().folder,
        autoloads=("habana_frameworks",),  # which does so in the mode, and by the variable, that the vendor's has
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
    )
