"""The simulated Teco cards, as the tests of simulated chips have to know them."""

from __future__ import annotations

from pathlib import Path

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.page import Page

import northbridge_sdaa
from northbridge_sdaa.simulated.machine import RECORD

TECO = SimChip(
    name="sdaa",
    package=northbridge_sdaa,
    record=RECORD,
    imports="import torch\nimport torch_sdaa\n",
    collective="tccl",
    variables=("SDAA", "TORCH_SDAA", "TCCL", "TECO"),
    page=Page("docs/simulated-teco.md"),
    scripts=Path(__file__).parent / "runs" / "scripts",
    # The two ways in which a vendor can make a device type of torch: which of them Teco took is not public.
    modes={each: {"NORTHBRIDGE_SDAA_SIM_REGISTRATION": each} for each in ("renamed", "patched")},
    eight_ranks="sdaa available: True (simulated), using: 8 devices (2 cards)",
    places=tuple(f"rank {rank}: node {rank // 2}, device {rank % 2}" for rank in range(4)),
)
