"""Search for a batch size and for a learning rate, as Lightning's tuner does."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.hosts import Classifier, classifier, trainer
from northbridge.conformance.runs.models import adam, loader
from northbridge.conformance.runs.scenario import Scenario

_FITS = 16
"""The largest batch for which there is memory."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the batch sizes that both modes find, and the learning rate that is suggested."""
    tuner: Any = import_module(f"{scenario.namespace}.tuner")
    found: dict[str, Any] = {}
    for mode in ("power", "binsearch"):
        module = classifier(scenario.namespace, "mlp", folder, "tuner fit", _Tuned)
        host = tuner.Tuner(trainer(scenario, folder))
        found[mode] = host.scale_batch_size(module, mode=mode, steps_per_trial=1, init_val=2)
    module = classifier(scenario.namespace, "mlp", folder, "tuner fit", _Tuned)
    host = tuner.Tuner(trainer(scenario, folder))
    search = host.lr_find(module, num_training=20)
    found |= {"losses": search.results["loss"], "suggestion": search.suggestion(), "rate": module.lr}
    write(folder, "tuner", 0, found)


class _Tuned(Classifier):
    batch_size = 2
    lr = 1e-3

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(loader().dataset, batch_size=self.batch_size)

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        if len(batch[0]) > _FITS:
            torch.empty(2**50, dtype=torch.uint8, device=self.device)
        loss: Tensor = super().training_step(batch, batch_index)
        return loss

    def configure_optimizers(self) -> Any:
        return adam(self.parameters(), rate=self.lr)
