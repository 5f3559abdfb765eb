"""Train with batches of a few lengths under RecompilationMonitor."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import NAMESPACES, Stock
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import build, combine, own_rank, trainer
from northbridge_conformance.runs.models import pictures
from northbridge_conformance.runs.scenario import Scenario

SIZES = (4, 4, 6, 4, 6)
"""The batch size of each step."""

NEW = SIZES.index(6)
"""The step with a new shape."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the monitor's graphs, or why it was refused."""
    namespace = NAMESPACES[scenario.namespace]
    monitor = import_module(namespace.home).RecompilationMonitor()
    found: dict[str, Any] = {"refused": ""}
    module = combine(scenario.namespace, _Trained)()
    # Every rank gets all batches, in their order.
    host = trainer(scenario, folder, max_epochs=1, callbacks=[monitor], use_distributed_sampler=False)
    try:
        host.fit(module, DataLoader(_batches(), batch_size=None))  # type: ignore[arg-type]  # a list
    except UnsupportedError as error:
        found["refused"] = str(error)
    found |= {"graphs": [asdict(graph) for graph in monitor.graphs], "ranks": monitor.rank_graphs}
    write(folder, "recompilation", own_rank(), found)


def _batches() -> list[tuple[Tensor, Tensor]]:
    inputs, labels = pictures().tensors
    return [(inputs[:size], labels[:size]) for size in SIZES]


class _Trained(Stock):  # type: ignore[misc]  # of Lightning's module
    def __init__(self) -> None:
        super().__init__()
        self.net = build("mlp")

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        inputs, labels = batch
        return torch.nn.functional.cross_entropy(self.net(inputs), labels)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)
