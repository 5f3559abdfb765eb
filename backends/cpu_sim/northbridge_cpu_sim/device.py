"""The simulated chip, as torch sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    import torch


class SimDevice(northbridge.Device):
    """The simulated chip: ``torch.cpu_sim`` is like ``torch.cuda``.

    With ``NORTHBRIDGE_CPU_SIM_ONE_PER_PROCESS=1`` a process holds one device, with the index 0, as on some real chips.
    """

    type = "cpu_sim"

    def root(self, index: int) -> torch.device:
        return super().root(0 if self._one_per_process else index)

    def select(self, index: int) -> None:
        if self._one_per_process:
            self.module.hold(index)
        else:
            super().select(index)

    @property
    def _one_per_process(self) -> bool:
        from northbridge_cpu_sim.settings import SimSettings

        return SimSettings.read().one_per_process
