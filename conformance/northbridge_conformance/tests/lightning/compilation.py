"""Models that the user has compiled, and the graphs that a monitor finds in a training."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import northbridge
from northbridge.discovery.declared import load
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import NAMESPACES, Stock
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.hosts import build, combine, fabric, is_trainer, own_rank, trainer
from northbridge_conformance.runs.models import loader, pictures
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import FABRICS, TRAINERS, Runs, UsesSuite, one_and_two_devices, shows
from northbridge_conformance.tests.device.graphs import count_graphs
from northbridge_conformance.tests.lightning.training import train_epoch


def train_compiled(scenario: Scenario, folder: Path) -> None:
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
    write(folder, "train_compiled", own_rank(), found)


_seen: dict[str, int] = {}


def _fit(scenario: Scenario, folder: Path, asked: dict[str, Any] | None) -> dict[str, Any]:
    host = trainer(scenario, folder, max_epochs=2)
    module = combine(scenario.namespace, _Compiled)(build("mlp"))
    count_graphs()
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
    count_graphs()
    for _ in range(2):
        train_epoch(host, net, optimizer, batches)
        graphs.append(count_graphs())
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
        self.graphs.append(count_graphs())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Compiled(UsesSuite):
    """The tests that are the same for a Trainer and a Fabric."""

    @shows("fit")
    def test_compiled_model_trains_like_the_plain_model(self, chip: RunResult) -> None:
        check(chip, "eager")

    @shows("compile")
    def test_compile_backend_of_the_chip_trains_like_the_plain_model(self, chip: RunResult, backend: str) -> None:
        require_own(chip, backend)
        check(chip, "the chip's")

    @shows("compile")
    def test_the_second_epoch_compiles_nothing(self, chip: RunResult, backend: str) -> None:
        require_own(chip, backend)
        for first, second in (found["graphs"] for found in chip.each("train_compiled", "the chip's")):
            assert first >= 1
            assert second == 0

    def test_missing_compile_backend_raises_before_the_first_step(self, chip: RunResult, backend: str) -> None:
        missing = northbridge.load(backend).bridge.missing_compile_backends

        for found in chip.ranks("train_compiled"):
            tried = {name: found[name] for name in found["missing"]}
            assert set(tried) == set(missing)  # may be empty
            for name, came_of_it in tried.items():
                said = f"{backend!r} cannot compile with {name!r}: {missing[name]}"
                assert came_of_it["batches"] == 0
                assert said in came_of_it["refused"]


class Compilation(Compiled):
    """A compiled LightningModule trains, and a backend that the chip lacks is refused."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "Look at the bridge's missing_compile_backends and compile_backend, and at torch.compile over your device"
        " with backend='eager'."
    )


class FabricCompilation(Compiled):
    """A Fabric compiles a model again after its setup, with the chip's backend unless the user named one."""

    runs: Runs = one_and_two_devices(*FABRICS)
    advice = "Look at the bridge's missing_compile_backends and compile_backend: what is named there is what happens."

    @shows("compile")
    def test_model_compiled_inside_the_strategy_trains(self, chip: RunResult, backend: str) -> None:
        require_own(chip, backend)
        check(chip, "inside the strategy")

    def test_default_compile_backend_is_that_of_the_chip_or_raises(self, chip: RunResult, backend: str) -> None:
        named = northbridge.load(backend).bridge.compile_backend
        registered = [named in each for each in chip.each("train_compiled", "registered")]

        if named is None:  # torch's own backend is used, which may not know the chip
            assert not any("without a backend" in found for found in chip.ranks("train_compiled"))
        elif all(registered):
            check(chip, "without a backend")
        else:
            for found in chip.each("train_compiled", "without a backend"):
                assert f"{backend!r} compiles with {named!r}, which torch does not have" in found["refused"]


def require_own(chip: RunResult, backend: str) -> None:
    """Raise :class:`UnsupportedError` unless the chip's bridge names a backend that torch has."""
    named = northbridge.load(backend).bridge.compile_backend
    if named is None or not all(named in each for each in chip.each("train_compiled", "registered")):
        raise UnsupportedError(f"{backend!r} names no backend of torch.compile that torch has", capability="compile")


def check(chip: RunResult, way: str) -> None:
    """Compare the weights with those of the uncompiled model."""
    for found in chip.ranks("train_compiled"):
        assert found[way]["weights"] == pytest.approx(found["plainly"]["weights"], abs=1e-6)


SIZES = (4, 4, 6, 4, 6)
"""The batch size of each step."""

NEW = SIZES.index(6)
"""The step with a new shape."""


def monitor_graphs(scenario: Scenario, folder: Path) -> None:
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
    write(folder, "monitor_graphs", own_rank(), found)


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


class Recompilation(UsesSuite):
    """RecompilationMonitor finds a graph for each shape on every rank, or is refused."""

    claims: tuple[str, ...] = ("recompilation",)
    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = "Claim `recompilation` as `no` if the chip compiles nothing: then the monitor is refused with your reason."

    def test_the_monitor_finds_one_graph_for_each_shape(self, chip: RunResult, devices: int) -> None:
        for found in chip.ranks("monitor_graphs"):
            if found["refused"]:
                raise UnsupportedError(found["refused"], capability="recompilation")
            seen = [(graph["first_step"], graph["module"], graph["steps"]) for graph in found["graphs"]]
            assert seen == [(0, "batch", SIZES.count(4)), (NEW, "batch", SIZES.count(6))]
            assert found["ranks"] == ([2] * devices if devices > 1 else [])
