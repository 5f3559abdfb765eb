"""XCCL: torch's process group over Intel's oneCCL."""

from __future__ import annotations

from typing import ClassVar

import northbridge


class XCCL(northbridge.Collective):
    """XCCL, which is part of torch for Intel GPUs.

    It reduces by average only if oneCCL was built with it, so a mean is a sum and a division. Sources:
    ``contract.toml``.
    """

    name = "xccl"
    takes_device_id = True
    averages = False
    carried_dtypes: ClassVar = frozenset(
        {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"}
    )
