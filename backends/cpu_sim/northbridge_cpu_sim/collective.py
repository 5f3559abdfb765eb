"""simccl: the simulated chip's communication library."""

from __future__ import annotations

from typing import Literal

import northbridge

Call = Literal[
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
]
"""The calls that a chip's library may lack, and that a fault may name."""


class SimCCL(northbridge.Collective):
    """Sends the chip's tensors over Gloo; adds the average and the sum with a factor to Gloo's reductions."""

    name = "simccl"


def load() -> None:
    """Load the chip into the process; torch 2.14 and later call this if ``simccl`` is used by name."""
    northbridge.load("cpu_sim")
