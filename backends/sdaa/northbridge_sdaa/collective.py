"""TCCL: the communication library between core groups."""

from __future__ import annotations

from typing import ClassVar

import northbridge


class TCCL(northbridge.Collective):
    """TCCL, which reduces by sum, product, minimum and maximum; it has no average.

    Other libraries are called "tccl" too, so the name does not identify the chip. How it uses ``device_id`` and options
    is not public, so it only gets a timeout. Sources: ``contract.toml``.
    """

    name = "tccl"
    averages = False
    carried_dtypes: ClassVar = frozenset(
        {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "uint32", "uint64"}
    )
