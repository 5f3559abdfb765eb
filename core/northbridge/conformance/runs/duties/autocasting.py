"""Train in mixed precision."""

from __future__ import annotations

from pathlib import Path

from northbridge.conformance.runs.duties.looping import train_all
from northbridge.conformance.runs.duties.training import train
from northbridge.conformance.runs.hosts import fabric, is_trainer
from northbridge.conformance.runs.scenario import Scenario

PRECISION = "bf16-mixed"


def perform(scenario: Scenario, folder: Path) -> None:
    """Train each of the scenario's models under autocast in bfloat16; each rank reports."""
    if is_trainer(scenario.namespace):
        for model in scenario.models:
            train(scenario, folder, model, f"autocasting {model}", precision=PRECISION)
    else:
        fabric(scenario, precision=PRECISION).launch(train_all, scenario.models, folder, "autocasting")
