"""The simulation of Kelvin K1, where nobody has one: stand-ins for the vendor's software."""

from pathlib import Path

import northbridge
import northbridge_cpu_sim


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """Say which of the vendor's modules are stood in for."""
    stand_in = Path(__file__).parent / "torch_kelvin"
    return northbridge.Simulation({"torch_kelvin": stand_in}, strict_options=northbridge_cpu_sim.STRICT_OPTIONS)
