"""HCCL: the communication library between HPUs."""

from __future__ import annotations

from typing import ClassVar

import northbridge


class HCCL(northbridge.Collective):
    """Speak to HCCL, which reduces float32 and bfloat16, by sum, minimum and maximum.

    Any other dtype it casts to float32 and back, which rounds whole numbers above 2^24 without a word; those are
    reduced on the host here. It has no average: a mean is a sum and a division. It takes no ``device_id``: the
    vendor's ``init_process_group`` has the parameters of older releases of torch. Sources: ``contract.toml``.
    """

    name = "hccl"
    averages = False
    missing_reductions: ClassVar = {
        "product": "HCCL has sum, min and max alone; reduce the logarithms by 'sum', or all_gather and multiply"
    }
    exact_dtypes = frozenset({"float32", "bfloat16"})
