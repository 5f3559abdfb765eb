"""Names of lightning-Habana for a Fabric, the same as the Trainer's."""

from __future__ import annotations

from northbridge_hpu.trainer import (
    HabanaDataLoader as HabanaDataLoader,
    HPUAccelerator as HPUAccelerator,
    HPUCheckpointIO as HPUCheckpointIO,
    HPUDDPStrategy as HPUDDPStrategy,
    HPUDeepSpeedStrategy as HPUDeepSpeedStrategy,
    HPUFSDPPrecision as HPUFSDPPrecision,
    HPUFSDPStrategy as HPUFSDPStrategy,
    HPUParallelStrategy as HPUParallelStrategy,
    HPUPrecisionPlugin as HPUPrecision,
    SingleHPUStrategy as SingleHPUStrategy,
    __getattr__ as __getattr__,
)

__all__ = ["HPUPrecision"]
