"""simccl: the simulated chip's communication library."""

from __future__ import annotations

import northbridge


class SimCCL(northbridge.Collective):
    """Carry the chip's tensors over Gloo; it has Gloo's reductions and, like most vendors' libraries, no average."""

    name = "simccl"
