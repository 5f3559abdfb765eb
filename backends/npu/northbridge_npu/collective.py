"""HCCL: the communication library between Ascend NPUs."""

from __future__ import annotations

from typing import ClassVar

import northbridge

_REDUCED = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "bfloat16"})


class HCCL(northbridge.Collective):
    """Huawei's HCCL, which is not Habana's: the name does not identify the chip.

    It reduces by sum, product, minimum and maximum; releases differ in whether torch_npu makes an average of the sum.
    torch_npu reduces bool and uint8 as int32. Sources: ``contract.toml``.
    """

    name = "hccl"
    other_names: ClassVar[tuple[str, ...]] = ("lccl",)
    averages = False
    exact_dtypes: ClassVar = _REDUCED
    carried_dtypes: ClassVar = _REDUCED | {"float64"}
