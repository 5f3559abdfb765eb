"""Train a model that the user has compiled, with an explicit backend and without."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from northbridge.discovery.named import load
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Stock
from northbridge_conformance.rank_programs.training import train_epoch
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import build, combine, fabric, is_trainer, own_rank, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Report each way's weights, or why it was refused and how many batches had been trained by then."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of what torch.compile imports
    bridge = load(scenario.accelerator).bridge
    ways: dict[str, dict[str, Any] | None] = {"plainly": None, "eager": {"backend": "eager"}}  # of torch.compile
    own = bridge.compile_backend
    if own is not None and own in torch.compiler.list_backends(exclude_tags=None):
        ways["the chip's"] = {"backend": own}
        if not is_trainer(scenario.namespace):
            ways["inside the strategy"] = {"backend": own}
    if own is not None and not is_trainer(scenario.namespace):
        ways["without a backend"] = {}
    ways |= {name: {"backend": name} for name in bridge.missing_compile_backends}
    found: dict[str, Any] = {}
    for way, asked in ways.items():
        _seen.clear()
        torch.compiler.reset()
        try:
            if is_trainer(scenario.namespace):
                found[way] = _fit(scenario, folder, asked)
            else:
                found[way] = _loop(scenario, asked, around=way != "inside the strategy")
        except UnsupportedError as error:
            found[way] = {"refused": str(error), "batches": _seen.get("batches", 0)}
    found["missing"] = list(bridge.missing_compile_backends)
    found["registered"] = torch.compiler.list_backends(exclude_tags=None)
    write(folder, "compilation", own_rank(), found)


_seen: dict[str, int] = {}


def _graphs() -> int:
    """Return the number of graphs that torch has compiled since the last count, and count anew."""
    from torch._dynamo.utils import counters

    found = counters["stats"]["unique_graphs"]
    counters.clear()
    return int(found)


def _fit(scenario: Scenario, folder: Path, asked: dict[str, Any] | None) -> dict[str, Any]:
    host = trainer(scenario, folder, max_epochs=2)
    module = combine(scenario.namespace, _Compiled)(build("mlp"))
    _graphs()
    host.fit(module if asked is None else torch.compile(module, **asked), loader(shuffle=False))
    return _facts(module.net, module.graphs)


def _loop(scenario: Scenario, asked: dict[str, Any] | None, *, around: bool) -> dict[str, Any]:
    host = fabric(scenario)
    host.launch()
    plain: Any = build("mlp")
    net: Any = plain if asked is None else torch.compile(plain, **asked)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    net, optimizer = host.setup(net, optimizer, _reapply_compile=around)
    batches = host.setup_dataloaders(loader(shuffle=False))
    graphs = []
    _graphs()
    for _ in range(2):
        train_epoch(host, net, optimizer, batches)
        graphs.append(_graphs())
    return _facts(plain, graphs)


def _facts(net: torch.nn.Module, graphs: list[int]) -> dict[str, Any]:
    weights = torch.cat([each.detach().cpu().flatten() for each in net.parameters()])
    return {"weights": weights[-40:].tolist(), "graphs": graphs}


class _Compiled(Stock):  # type: ignore[misc]  # of Lightning's module
    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net
        self.graphs: list[int] = []

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        return cross_entropy(self.net(batch[0]), batch[1])

    def on_train_batch_start(self, batch: Any, batch_index: int) -> None:
        _seen["batches"] = _seen.get("batches", 0) + 1

    def on_train_epoch_end(self) -> None:
        self.graphs.append(_graphs())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)
