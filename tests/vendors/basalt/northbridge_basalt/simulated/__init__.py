"""The simulation of Basalt B1: stand-ins for the vendor's software, used if NORTHBRIDGE_SIMULATE=basalt."""

from pathlib import Path

import northbridge
import northbridge_cpu_sim


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """List the vendor's modules that have a stand-in."""
    stand_in = Path(__file__).parent / "torch_basalt"
    return northbridge.Simulation(
        {"torch_basalt": stand_in},
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
    )
