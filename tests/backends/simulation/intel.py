"""The simulated Intel GPUs, as the tests of simulated chips have to know them."""

from __future__ import annotations

from pathlib import Path

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.page import Page

import northbridge_xpu
from northbridge_xpu.simulated.machine import RECORD

INTEL = SimChip(
    name="xpu",
    package=northbridge_xpu,
    record=RECORD,
    imports="import torch\nimport northbridge\nnorthbridge.load('xpu')\n",
    collective="xccl",
    variables=("ZE", "ONEAPI"),
    page=Page("docs/simulated-intel-gpus.md"),
    scripts=Path(__file__).parent / "scripts",
    modes={"flat": {"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}},
    eight_ranks="xpu available: True (simulated), using: 8 devices (4 cards)",
    places=tuple(f"rank {rank}: node {rank // 2}, device {rank % 2}" for rank in range(4)),
)
