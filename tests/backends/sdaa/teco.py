"""The simulated Teco cards, as the tests of posing chips have to know them."""

from __future__ import annotations

from pathlib import Path

from tests.backends.posed.chip import PosedChip
from tests.backends.posed.page import Page

import northbridge_sdaa
from northbridge_sdaa.simulated.record import RECORD

TECO = PosedChip(
    name="sdaa",
    package=northbridge_sdaa,
    record=RECORD,
    imports="import torch\nimport torch_sdaa\n",
    collective="tccl",
    variables=("SDAA", "TORCH_SDAA", "TCCL", "TECO"),
    page=Page("docs/simulated-teco.md"),
    scripts=Path(__file__).parent / "runs" / "scripts",
)
