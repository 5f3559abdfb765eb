"""What the HPU has beyond torch's own operators."""

from __future__ import annotations

from collections.abc import Mapping

import northbridge
from northbridge_hpu.float8 import TorchAO, TransformerEngine


class HPUAcceleration(northbridge.Acceleration):
    """The vendor's Transformer Engine, and torchao where the card's float8 allows it."""

    def float8_engines(self) -> Mapping[str, northbridge.Float8Engine]:
        return {"transformer-engine": TransformerEngine(), "torchao": TorchAO()}
