"""Names of lightning-Teco for a Fabric, the same as the Trainer's."""

from __future__ import annotations

from northbridge_sdaa.trainer import (
    SDAAAccelerator as SDAAAccelerator,
    SDAACheckpointIO as SDAACheckpointIO,
    SDAADDPStrategy as SDAADDPStrategy,
    SDAADeepSpeedPrecisionPlugin as SDAADeepSpeedPrecisionPlugin,
    SDAADeepSpeedStrategy as SDAADeepSpeedStrategy,
    SDAAFSDPPrecision as SDAAFSDPPrecision,
    SDAAFSDPStrategy as SDAAFSDPStrategy,
    SDAAPrecisionPlugin as SDAAPrecisionPlugin,
    SingleSDAAStrategy as SingleSDAAStrategy,
)
