"""TCCL: the communication library between core groups."""

from __future__ import annotations

from typing import ClassVar

import northbridge


class TCCL(northbridge.Collective):
    """Speak to TCCL, which sums, multiplies, and takes minima and maxima; it has no average.

    Other libraries are called "tccl" too: nothing here takes the name for the chip. What it does with ``device_id`` and
    with options is not public, so that it is given a timeout alone. Sources: ``contract.toml``.
    """

    name = "tccl"
    averages = False
    carried_dtypes: ClassVar = frozenset(
        {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "uint32", "uint64"}
    )
