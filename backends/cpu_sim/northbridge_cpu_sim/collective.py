"""simccl: the simulated chip's communication library."""

from __future__ import annotations

import northbridge


class SimCCL(northbridge.Collective):
    """Carry the chip's tensors over Gloo; to Gloo's reductions it adds the average and the sum with a factor."""

    name = "simccl"


def load() -> None:
    """Bring the chip into the process: torch from 2.14 on calls this where it is asked for ``simccl`` by name."""
    northbridge.load("cpu_sim")
