"""Stand in for lightning-Teco, as far as it registers names. Nothing here drives anything."""

from __future__ import annotations

from lightning.pytorch.accelerators import AcceleratorRegistry, CPUAccelerator
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy, StrategyRegistry
from lightning.pytorch.trainer.connectors.accelerator_connector import _AcceleratorConnector


class SDAAAccelerator(CPUAccelerator):
    @staticmethod
    def is_available() -> bool:
        return True


class SDAADDPStrategy(DDPStrategy):
    strategy_name = "dpp_sdaa"


class SingleSDAAStrategy(SingleDeviceStrategy):
    strategy_name = "single_sdaa"


def register() -> None:
    """Register whether somebody else has or not, and choose strategies in Lightning's place, as the real one does."""
    AcceleratorRegistry.register("sdaa", SDAAAccelerator)
    for strategy in (SDAADDPStrategy, SingleSDAAStrategy):
        StrategyRegistry.register(strategy.strategy_name, strategy)
    chosen_by_lightning = _AcceleratorConnector._choose_strategy

    def choose(self):
        if self._accelerator_flag == "sdaa":
            return "dpp_sdaa" if len(self._parallel_devices) > 1 else "single_sdaa"
        return chosen_by_lightning(self)

    _AcceleratorConnector._choose_strategy = choose
