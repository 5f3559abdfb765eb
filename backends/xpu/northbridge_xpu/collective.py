"""XCCL: torch's process group over Intel's oneCCL."""

import northbridge


class XCCL(northbridge.Collective):
    """XCCL. It has an average only if its oneCCL has one, and is bound to no device: ``contract.toml`` says why."""

    name = "xccl"
    averages = False
    carried_dtypes = frozenset({"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"})
