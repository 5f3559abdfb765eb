"""The simulated Gaudi, as the tests of simulated chips have to know it."""

from __future__ import annotations

from pathlib import Path

from tests.backends.simulated.chip import SimChip
from tests.backends.simulated.page import Page

import northbridge_hpu
from northbridge_hpu.simulated.machine import server
from northbridge_hpu.simulated.record import RECORD

GAUDI = SimChip(
    name="hpu",
    package=northbridge_hpu,
    record=RECORD,
    server=server,
    imports="import torch\nimport habana_frameworks.torch\nimport habana_frameworks.torch.core as htcore\n",
    collective="hccl",
    variables=("HABANA", "HLS", "PT", "HCCL", "HCL", "EXPERIMENTAL", "OMPI_COMM_WORLD"),
    page=Page("docs/simulated-gaudi.md"),
    scripts=Path(__file__).parent / "runs" / "scripts",
    nodes=(
        {"NORTHBRIDGE_HPU_SIM_MODULES": "5,4,7,6,2,1,0,3"},
        {"NORTHBRIDGE_HPU_SIM_MODULES": "7,6,5,4,3,2,1,0"},
    ),
)
