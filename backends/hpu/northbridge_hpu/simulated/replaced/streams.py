"""Calls that report to the allocator that another stream uses a tensor."""

from __future__ import annotations

import torch

from northbridge_hpu.simulated import streams
from northbridge_hpu.simulated.record import put

_record_stream = torch.Tensor.record_stream


def replace() -> None:
    """Replace ``torch.Tensor.record_stream``."""
    put("torch.Tensor.record_stream", record_stream)


def record_stream(self: torch.Tensor, s: torch.Stream) -> None:
    """Call ``torch.hpu.record_stream`` for a tensor on the card, and torch's function for any other."""
    (streams.record_stream if self.device.type == "hpu" else _record_stream)(self, s)
