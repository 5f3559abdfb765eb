"""Pose as lightning-Teco, as far as it registers names. Nothing here drives anything."""

from __future__ import annotations

from lightning.pytorch.accelerators import AcceleratorRegistry, CPUAccelerator
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy, StrategyRegistry


class SDAAAccelerator(CPUAccelerator):
    @staticmethod
    def is_available() -> bool:
        return True


class SDAADDPStrategy(DDPStrategy):
    strategy_name = "dpp_sdaa"


class SingleSDAAStrategy(SingleDeviceStrategy):
    strategy_name = "single_sdaa"


def register() -> None:
    """Register whether somebody else has or not, as the real one does."""
    AcceleratorRegistry.register("sdaa", SDAAAccelerator)
    for strategy in (SDAADDPStrategy, SingleSDAAStrategy):
        StrategyRegistry.register(strategy.strategy_name, strategy)
