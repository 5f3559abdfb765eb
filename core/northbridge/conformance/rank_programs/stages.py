"""Fit with validation, then validate, test and predict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import Validated, classifier, trainer
from northbridge.conformance.runs.models import loader
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Go through the stages; each rank reports its metrics and predictions."""
    host = trainer(scenario, folder)
    module = classifier(scenario.namespace, "convnet", folder, "stages fit", _Staged)
    batches = loader(shuffle=False)
    host.fit(module, loader(), batches)
    found = {"fit": _numbers(host.callback_metrics)}
    (validated,) = host.validate(module, batches)
    (tested,) = host.test(module, batches)
    predictions = host.predict(module, batches)
    found |= {"validate": _numbers(validated), "test": _numbers(tested)}
    outside = sorted({str(each.device) for each in predictions})
    digests = fingerprint({str(number): each for number, each in enumerate(predictions)})
    write(folder, "stages", host.global_rank, {**found, "predictions": digests, "prediction devices": outside})


def _numbers(metrics: Any) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


class _Staged(Validated):
    def test_step(self, batch: Any, batch_index: int) -> None:
        self.log("test loss", cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)

    def predict_step(self, batch: Any, batch_index: int) -> Tensor:
        scores: Tensor = self.net(batch[0])
        return scores
