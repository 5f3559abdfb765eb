"""The vendor's communication library, as torch.distributed sees it."""

from typing import ClassVar

import northbridge


class ChipCollective(northbridge.Collective):
    """It cannot multiply."""

    name = "basaltccl"
    missing_reductions: ClassVar[dict[str, str]] = {"product": "sum the logarithms"}
