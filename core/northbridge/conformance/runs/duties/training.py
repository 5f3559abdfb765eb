"""Train models through the Trainer, one after another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from northbridge.conformance.runs.duties.preparing import changed_since
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import classifier, trainer
from northbridge.conformance.runs.models import loader
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Train each of the scenario's models for two epochs."""
    for model in scenario.models:
        train(scenario, folder, model, f"training {model}")


def train(scenario: Scenario, folder: Path, model: str, topic: str, **arguments: Any) -> None:
    """Train ``model``; each rank reports as ``topic``, and each process that is left as ``after`` it."""
    before = dict(os.environ)
    host = trainer(scenario, folder, **arguments)
    module = classifier(scenario.namespace, model, folder, topic)
    host.fit(module, loader())
    left = {
        "weights": fingerprint(module.state_dict()),
        "parameters": len(list(module.parameters())),
        "changed": changed_since(before),
    }
    write(folder, f"after {topic}", host.global_rank, left)
