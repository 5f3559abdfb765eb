"""The one single-device strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.lightning.accelerators.accelerator import is_ours
from northbridge.lightning.strategies.chip import make_chip_strategy

if TYPE_CHECKING:
    import torch

    from northbridge.lightning.namespaces import Namespace


def make_single_device_strategy(namespace: Namespace, checkpoint_io: Any) -> Any:
    """Return the single-device strategy class of ``namespace``."""
    stock: Any = namespace.module("strategies").SingleDeviceStrategy
    chip_strategy: Any = make_chip_strategy(namespace, stock, checkpoint_io)

    class SingleDeviceStrategy(chip_strategy):  # type: ignore[misc]  # made at run time
        """Train on one device of a chip."""

        strategy_name = "single_device"

        # On one device a Fabric need not be launched, and setup_environment() is then never called. To ask for its
        # device, or to set a module up, is to use it; a Fabric that is merely built leaves the device to others.

        def _take_when_used(self) -> None:
            if self._rooted is None and is_ours(self.accelerator):
                self.take_device()
                self.announce()

        @property
        def _root_device_fabric(self) -> torch.device:
            self._take_when_used()
            device: torch.device = super().root_device
            return device

        def _setup_module_fabric(self, module: torch.nn.Module) -> torch.nn.Module:
            self._take_when_used()
            prepared: torch.nn.Module = super().setup_module(module)
            return prepared

        if not namespace.is_trainer:
            root_device = _root_device_fabric
            setup_module = _setup_module_fabric

    return SingleDeviceStrategy
