"""HCCL: the communication library between HPUs."""

from __future__ import annotations

from typing import ClassVar

import northbridge


class HCCL(northbridge.Collective):
    """HCCL, which reduces float32 and bfloat16, by sum, minimum and maximum.

    It casts any other dtype to float32 and back, which silently rounds integers above 2^24. These dtypes are reduced on
    the host here. It has no average: a mean is a sum and a division. It has no ``device_id``: the vendor's
    ``init_process_group`` has the parameters of older releases of torch. Sources: ``contract.toml``.
    """

    name = "hccl"
    averages = False
    missing_reductions: ClassVar = {
        "product": "HCCL has only sum, min and max; reduce the logarithms by 'sum', or all_gather and multiply"
    }
    exact_dtypes = frozenset({"float32", "bfloat16"})
