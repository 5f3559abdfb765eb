"""The simulated chip, as torch sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    import torch


class SimDevice(northbridge.Device):
    """Speak to ``torch.cpu_sim``, which is like ``torch.cuda``.

    With ``NORTHBRIDGE_CPU_SIM_ONE_PER_PROCESS=1`` a process holds one device and calls it 0, as some real chips do.
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
