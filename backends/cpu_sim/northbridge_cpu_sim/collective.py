"""simccl: the simulated chip's communication library."""

from __future__ import annotations

import northbridge


class SimCCL(northbridge.Collective):
    """Sends the chip's tensors over Gloo; adds the average and the sum with a factor to Gloo's reductions."""

    name = "simccl"


def load() -> None:
    """Load the chip into the process; torch 2.14 and later call this if ``simccl`` is used by name."""
    northbridge.load("cpu_sim")
