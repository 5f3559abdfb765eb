"""The single-device strategy of every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from northbridge.lightning.accelerators.accelerator import is_ours
from northbridge.lightning.strategies.chip import _ChipMixin
from northbridge.lightning.strategies.fabric import _FabricMixin

if TYPE_CHECKING:
    import torch


class _SingleDeviceMixin(_ChipMixin):
    """Trains on one device of a chip."""

    strategy_name = "single_device"


class _FabricSingleDeviceMixin(_FabricMixin, _SingleDeviceMixin):
    """Runs a Fabric on one device of a chip."""

    # A Fabric on one device need not be launched, and then setup_environment() is never called. So the device is
    # acquired when it is read, or when a module is set up; a Fabric that is only built does not acquire it.

    def _acquire_when_used(self) -> None:
        if self._rooted is None and is_ours(self.accelerator):
            self.acquire_device()
            self.announce()

    @property
    def root_device(self) -> torch.device:
        """The device; reading it acquires the device for this process."""
        self._acquire_when_used()
        return super().root_device

    def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Set up ``module`` on the device, which is acquired first."""
        self._acquire_when_used()
        return super().setup_module(module)
