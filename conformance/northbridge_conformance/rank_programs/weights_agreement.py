"""Train while the ranks' weights are compared; in one training, one rank changes its own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from northbridge.errors import WeightsDisagreeError
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import _Classifier, build, classifier, fabric, is_trainer, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario

STEP = 3
"""The step after which the last rank changes a weight."""

EVERY = 2
"""The number of steps between two checks."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report on each rank when the weights agreed, and the error if one rank's weights differed."""
    if is_trainer(scenario.namespace):
        _fit(scenario, folder)
    else:
        fabric(scenario).launch(_check, scenario.namespace, folder)


def _fit(scenario: Scenario, folder: Path) -> None:
    own: Any = import_module(NAMESPACES[scenario.namespace].home)
    found = {}
    for name, changes in (("whole", False), ("changed", True)):
        agreement = own.WeightsAgreement(every_n_steps=EVERY)
        host = trainer(scenario, folder, callbacks=[agreement])
        module = classifier(scenario.namespace, "mlp", folder, "weights_agreement fit", _Changing)
        module.changes = changes
        with Caught() as caught:
            host.fit(module, loader(samples=8 * 4 * host.world_size))
        found[name] = {"agreed at": agreement.agreed_at, "steps": host.global_step, **caught.told}
    write(folder, "weights_agreement", host.global_rank, found)


def _check(host: Any, namespace: str, folder: Path) -> None:
    agreement: Any = import_module(NAMESPACES[namespace].home).WeightsAgreement()
    net = build("mlp")
    net, _ = host.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    agreement.check(host.strategy, net, 1)
    if host.global_rank == host.world_size - 1:
        change(net)
    with Caught() as caught:
        agreement.check(host.strategy, net, STEP)
    write(folder, "weights_agreement", host.global_rank, {"changed": {"agreed at": agreement.agreed_at, **caught.told}})


def change(net: torch.nn.Module) -> None:
    """Change one element of the next-to-last weight slightly."""
    with torch.no_grad():
        list(net.parameters())[-2][0, 0] += 1e-6


class Caught:
    """Catches the error, and keeps its ranks and message."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"ranks": [], "message": ""}

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, WeightsDisagreeError):
            self.told = {"ranks": list(error.ranks), "message": str(error)}
            return True
        return False


class _Changing(_Classifier):
    changes: bool

    def on_train_batch_start(self, batch: Any, batch_index: int) -> None:
        if self.changes and self.global_step == STEP and self.global_rank == self.trainer.world_size - 1:
            change(self)
