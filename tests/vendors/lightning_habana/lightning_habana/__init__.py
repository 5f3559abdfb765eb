"""Stand in for the archived lightning-Habana, as far as Lightning up to 2.5.5 touches it. Nothing here drives anything."""

from __future__ import annotations

from typing import Any

from lightning.pytorch.accelerators import AcceleratorRegistry, CPUAccelerator
from lightning.pytorch.plugins import Precision
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy, StrategyRegistry


class HPUAccelerator(CPUAccelerator):
    @staticmethod
    def is_available() -> bool:
        return True

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        accelerator_registry.register("hpu", cls, description=cls.__class__.__name__)


class _Named:
    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        strategy_registry.register(cls.strategy_name, cls, description=cls.__class__.__name__)


class HPUParallelStrategy(_Named, DDPStrategy):
    strategy_name = "hpu_parallel"


class SingleHPUStrategy(_Named, SingleDeviceStrategy):
    strategy_name = "hpu_single"


class HPUPrecisionPlugin(Precision):
    pass


def register() -> None:
    """Register what is not registered yet, as Lightning's connector did at the start of every Trainer."""
    if "hpu" not in AcceleratorRegistry:
        HPUAccelerator.register_accelerators(AcceleratorRegistry)
    if "hpu_parallel" not in StrategyRegistry:
        HPUParallelStrategy.register_strategies(StrategyRegistry)
    if "hpu_single" not in StrategyRegistry:
        SingleHPUStrategy.register_strategies(StrategyRegistry)
