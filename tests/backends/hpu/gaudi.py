"""The simulated Gaudi, as the tests of simulated chips have to know it."""

from __future__ import annotations

from pathlib import Path

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.page import Page

import northbridge_hpu
from northbridge_hpu.simulated.machine import RECORD, server

GAUDI = SimChip(
    name="hpu",
    package=northbridge_hpu,
    record=RECORD,
    server=server,
    ordered_streams=True,
    imports="import torch\nimport habana_frameworks.torch\nimport habana_frameworks.torch.core as htcore\n",
    collective="hccl",
    variables=("HABANA", "HLS", "PT", "HCCL", "HCL", "EXPERIMENTAL", "OMPI_COMM_WORLD"),
    page=Page("docs/simulated-gaudi.md"),
    scripts=Path(__file__).parent / "runs" / "scripts",
    # Eager, where operators run at once, and lazy, where the vendor's import changes more of torch.
    modes={"eager": {"PT_HPU_LAZY_MODE": "0"}, "lazy": {"PT_HPU_LAZY_MODE": "1"}},
    eight_ranks="hpu available: True (simulated), using: 8 devices",
    # The same modules on both nodes, whatever cards those are.
    places=(
        "rank 0: node 0, card 6, module 0",
        "rank 1: node 0, card 5, module 1",
        "rank 2: node 1, card 7, module 0",
        "rank 3: node 1, card 6, module 1",
    ),
    nodes=({"NORTHBRIDGE_HPU_SIM_MODULES": "5,4,7,6,2,1,0,3"}, {"NORTHBRIDGE_HPU_SIM_MODULES": "7,6,5,4,3,2,1,0"}),
)
