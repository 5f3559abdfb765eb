"""What lightning-Teco called these things, for a Fabric: the Trainer's, for they become what they are given to."""

from __future__ import annotations

from northbridge_sdaa.trainer import (
    SDAAAccelerator as SDAAAccelerator,
    SDAACheckpointIO as SDAACheckpointIO,
    SDAADDPStrategy as SDAADDPStrategy,
    SDAAPrecisionPlugin as SDAAPrecisionPlugin,
    SingleSDAAStrategy as SingleSDAAStrategy,
    __getattr__ as __getattr__,
)
