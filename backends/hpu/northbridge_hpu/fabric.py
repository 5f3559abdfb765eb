"""What lightning-Habana called these things, for a Fabric: the Trainer's, for they become what they are given to."""

from __future__ import annotations

from northbridge_hpu.trainer import (
    HPUAccelerator as HPUAccelerator,
    HPUCheckpointIO as HPUCheckpointIO,
    HPUDDPStrategy as HPUDDPStrategy,
    HPUParallelStrategy as HPUParallelStrategy,
    HPUPrecisionPlugin as HPUPrecision,
    SingleHPUStrategy as SingleHPUStrategy,
    __getattr__ as __getattr__,
)

__all__ = ["HPUPrecision"]
