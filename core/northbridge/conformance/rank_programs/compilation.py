"""Train a model that the user has compiled, with an explicit backend and without."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from northbridge.conformance.rank_programs.training import train_epoch
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.hosts import build, combine, fabric, is_trainer, own_rank, trainer
from northbridge.conformance.runs.models import loader
from northbridge.conformance.runs.scenario import Scenario
from northbridge.discovery.named import load
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Stock


def perform(scenario: Scenario, folder: Path) -> None:
    """Report each way's weights, or why it was refused and how many batches had been trained by then."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of what torch.compile imports
    bridge = load(scenario.accelerator).bridge
    ways: dict[str, dict[str, Any] | None] = {"plainly": None, "eager": {"backend": "eager"}}  # of torch.compile
    if bridge.compile_backend is not None and not is_trainer(scenario.namespace):
        ways["without a backend"] = {}
    ways |= {name: {"backend": name} for name in bridge.missing_compile_backends}
    found: dict[str, Any] = {}
    for way, asked in ways.items():
        _seen.clear()
        try:
            found[way] = _fit(scenario, folder, asked) if is_trainer(scenario.namespace) else _loop(scenario, asked)
        except UnsupportedError as error:
            found[way] = {"refused": str(error), "batches": _seen.get("batches", 0)}
    found["missing"] = list(bridge.missing_compile_backends)
    found["registered"] = torch.compiler.list_backends(exclude_tags=None)
    write(folder, "compilation", own_rank(), found)


_seen: dict[str, int] = {}


def _fit(scenario: Scenario, folder: Path, asked: dict[str, Any] | None) -> dict[str, Any]:
    host = trainer(scenario, folder, max_epochs=1)
    module = combine(scenario.namespace, _Compiled)(build("mlp"))
    host.fit(module if asked is None else torch.compile(module, **asked), loader(shuffle=False))
    return _facts(module.net)


def _loop(scenario: Scenario, asked: dict[str, Any] | None) -> dict[str, Any]:
    host = fabric(scenario)
    host.launch()
    plain: Any = build("mlp")
    net: Any = plain if asked is None else torch.compile(plain, **asked)
    net, optimizer = host.setup(net, torch.optim.SGD(plain.parameters(), lr=0.1))
    train_epoch(host, net, optimizer, host.setup_dataloaders(loader(shuffle=False)))
    return _facts(plain)


def _facts(net: torch.nn.Module) -> dict[str, Any]:
    return {"weights": torch.cat([each.detach().cpu().flatten() for each in net.parameters()])[-40:].tolist()}


class _Compiled(Stock):  # type: ignore[misc]  # of Lightning's module
    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        return cross_entropy(self.net(batch[0]), batch[1])

    def on_train_batch_start(self, batch: Any, batch_index: int) -> None:
        _seen["batches"] = _seen.get("batches", 0) + 1

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)
