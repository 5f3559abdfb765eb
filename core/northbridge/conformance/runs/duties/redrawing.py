"""Take up, in another process, a training that draws random numbers on the chip and on the host."""

from __future__ import annotations

from pathlib import Path

import torch

from northbridge.conformance.runs.duties.drawing import take_up
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the weights that the training ends with whose first epoch the run in ``scenario.resume`` has kept."""
    weights = take_up(scenario, folder, Path(scenario.resume))
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    write(folder, "redrawing", rank, {"weights": weights})
