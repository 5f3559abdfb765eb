"""The one single-device strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from northbridge.lightning.accelerators.accelerator import is_ours
from northbridge.lightning.strategies.chip import _ChipMixin
from northbridge.lightning.strategies.fabric import _FabricMixin

if TYPE_CHECKING:
    import torch


class _SingleDeviceMixin(_ChipMixin):
    """Train on one device of a chip."""

    strategy_name = "single_device"


class _FabricSingleDeviceMixin(_FabricMixin, _SingleDeviceMixin):
    """Run a Fabric on one device of a chip."""

    # On one device a Fabric need not be launched, and setup_environment() is then never called. To ask for its
    # device, or to set a module up, is to use it; a Fabric that is merely built leaves the device to others.

    def _acquire_when_used(self) -> None:
        if self._rooted is None and is_ours(self.accelerator):
            self.acquire_device()
            self.announce()

    @property
    def root_device(self) -> torch.device:
        """The device, which is taken for this process by asking."""
        self._acquire_when_used()
        return super().root_device

    def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Set up ``module`` on the device, which is taken for that."""
        self._acquire_when_used()
        return super().setup_module(module)
