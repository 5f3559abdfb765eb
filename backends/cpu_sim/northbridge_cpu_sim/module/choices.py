"""What torch chooses in Python by a device's type, and chooses for the chip as for the CPU."""

from __future__ import annotations

import functools
from typing import Any

import torch


def choose_as_for_cpu(device_type: str) -> None:
    """Let ``nn.LinearCrossEntropyLoss`` sum in what it takes on the CPU, where it is left to choose.

    torch has it from 2.13 on; where it no longer asks in this place, nothing is changed.
    """
    options: Any = getattr(torch.nn, "LinearCrossEntropyOptions", None)
    adjust = getattr(options, "_adjust", None)
    if adjust is None:
        return

    @functools.wraps(adjust)
    def adjusted(
        self: Any, num_batches: int, in_features: int, num_classes: int, dtype: torch.dtype, device: Any = None
    ) -> Any:
        if device is not None and torch.device(device).type == device_type:
            device = torch.device("cpu")
        return adjust(self, num_batches, in_features, num_classes, dtype, device)

    options._adjust = adjusted
