"""Train two networks against each other, an optimizer each, by manual optimization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as distance

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import combine, trainer
from northbridge.conformance.runs.models import adam, loader
from northbridge.conformance.runs.scenario import Scenario
from northbridge.lightning.namespaces import Stock


def perform(scenario: Scenario, folder: Path) -> None:
    """Train for two epochs; each rank reports the weights."""
    # Each backward reaches one of the two networks alone, which DDP has to be told.
    strategy = "auto" if scenario.alone else "ddp_find_unused_parameters_true"
    host = trainer(scenario, folder, strategy=strategy)
    torch.manual_seed(3)
    module = combine(scenario.namespace, _Adversaries)()
    host.fit(module, loader())
    facts = {"weights": fingerprint(module.state_dict()), "steps": host.global_step}
    write(folder, "manual_optimization", host.global_rank, facts)


class _Adversaries(Stock):  # type: ignore[misc]  # of Lightning's module
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.forger = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64))
        self.judge = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def configure_optimizers(self) -> Any:
        return [adam(part.parameters()) for part in (self.forger, self.judge)]

    def training_step(self, batch: Any, batch_index: int) -> None:
        real = batch[0].flatten(1)
        forging, judging = self.optimizers()
        # No noise is drawn: a part of the data stands in for it.
        for optimizer, wanted in ((forging, 1.0), (judging, 0.0)):
            self.toggle_optimizer(optimizer)
            loss = self._judged(self.forger(real[:, :8]), wanted)
            if optimizer is judging:
                loss = loss + self._judged(real, 1.0)
            self.manual_backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            self.untoggle_optimizer(optimizer)

    def _judged(self, pictures: Tensor, wanted: float) -> Tensor:
        verdict = self.judge(pictures)
        return distance(verdict, torch.full_like(verdict, wanted))
