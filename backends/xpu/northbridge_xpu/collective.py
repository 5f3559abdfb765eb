"""XCCL: torch's process group over Intel's oneCCL."""

import northbridge


class XCCL(northbridge.Collective):
    """XCCL. It has an average only if its oneCCL has one, so a mean is a sum and a division."""

    name = "xccl"
    takes_device_id = True
    averages = False
    carried_dtypes = frozenset({"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"})
