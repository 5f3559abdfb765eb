"""Calls that tell the allocator that another stream uses a tensor."""

from __future__ import annotations

import torch

from northbridge_hpu.simulated import streams
from northbridge_hpu.simulated.record import put

_record_stream = torch.Tensor.record_stream


def replace() -> None:
    """Replace ``torch.Tensor.record_stream``."""
    put("torch.Tensor.record_stream", record_stream)


def record_stream(self: torch.Tensor, s: torch.Stream) -> None:
    """Do what ``torch.hpu.record_stream`` does for a tensor on the card, and what torch's does for any other."""
    (streams.record_stream if self.device.type == "hpu" else _record_stream)(self, s)
