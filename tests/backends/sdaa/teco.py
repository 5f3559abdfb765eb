"""The simulated Teco cards, as the tests of simulated chips have to know them."""

from __future__ import annotations

from pathlib import Path

from tests.backends.simulated.chip import SimChip
from tests.backends.simulated.page import Page

import northbridge_sdaa
from northbridge_sdaa.simulated.record import RECORD

TECO = SimChip(
    name="sdaa",
    package=northbridge_sdaa,
    record=RECORD,
    imports="import torch\nimport torch_sdaa\n",
    collective="tccl",
    variables=("SDAA", "TORCH_SDAA", "TCCL", "TECO"),
    page=Page("docs/simulated-teco.md"),
    scripts=Path(__file__).parent / "runs" / "scripts",
)
