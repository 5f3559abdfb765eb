"""Log numbers that the ranks reduce, and stop early on one of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.hosts import Classifier, classifier, trainer
from northbridge.conformance.runs.models import CLASSES, loader
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Train until a whole number has not fallen for two epochs; each rank reports every metric it has."""
    callbacks: Any = import_module(f"{scenario.namespace}.callbacks")
    patience = callbacks.EarlyStopping("errors", mode="min", patience=2)
    host = trainer(scenario, folder, max_epochs=20, callbacks=[patience])
    host.fit(classifier(scenario.namespace, "mlp", folder, "metrics fit", _Measured), loader(), loader(shuffle=False))
    numbers = {name: value.item() for name, value in host.callback_metrics.items()}
    write(
        folder,
        "metrics",
        host.global_rank,
        {**numbers, "stopped": patience.stopped_epoch, "epochs": host.current_epoch},
    )


class _Measured(Classifier):
    def __init__(self, net: torch.nn.Module, folder: Path, topic: str) -> None:
        from torchmetrics import MeanMetric
        from torchmetrics.classification import MulticlassAccuracy

        super().__init__(net, folder, topic)
        self.accuracy = MulticlassAccuracy(num_classes=CLASSES, average="micro")
        self.mean_loss = MeanMetric()

    def validation_step(self, batch: Any, batch_index: int) -> None:
        scores: Tensor = self.net(batch[0])
        loss = cross_entropy(scores, batch[1])
        errors = (scores.argmax(1) != batch[1]).sum()
        self.log("errors", errors, sync_dist=True, reduce_fx="sum")
        for reduction in ("mean", "min", "max", "sum"):
            self.log(f"loss {reduction}", loss, sync_dist=True, reduce_fx=reduction)
        self.accuracy(scores, batch[1])
        self.mean_loss(loss)
        self.log_dict({"accuracy": self.accuracy, "mean loss": self.mean_loss})
