"""The one single-device strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.lightning.strategy import make_chip_strategy

if TYPE_CHECKING:
    from northbridge.lightning.faces import Face


def make_single_device_strategy(face: Face, checkpoint_io: Any) -> Any:
    """Return the single-device strategy class of ``face``."""
    stock: Any = face.module("strategies").SingleDeviceStrategy
    chip_strategy: Any = make_chip_strategy(face, stock, checkpoint_io)

    class SingleDeviceStrategy(chip_strategy):  # type: ignore[misc]  # made at run time
        """Train on one device of a chip."""

        strategy_name = "single_device"

        def _configure_launcher(self) -> None:
            super()._configure_launcher()
            if not face.is_trainer:
                # On one device a Fabric need not be launched, and setup_environment() is then never called.
                self.take_device()
                self.announce()

    return SingleDeviceStrategy
