"""How the simulated chip comes into a process."""

from __future__ import annotations

import northbridge


class SimBridge(northbridge.Bridge):
    """Compile the chip on first use, and hand it to torch."""

    def load(self) -> None:
        from northbridge_cpu_sim.build import build
        from northbridge_cpu_sim.collective import SimCCL
        from northbridge_cpu_sim.module import install
        from northbridge_cpu_sim.settings import SimSettings

        settings = SimSettings.read()
        install(
            build(settings),
            name="cpu_sim",
            collective=SimCCL.name,
            devices=settings.devices,
            memory=settings.memory,
            label=settings.name,
        )

    def detect(self) -> int:
        """Return the configured number of devices: what is simulated needs no looking for."""
        from northbridge_cpu_sim.settings import SimSettings

        return SimSettings.read().devices
