"""Trainers and Fabrics as a user builds them, and the module that they train."""

from __future__ import annotations

import atexit
import os
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed
from torch import Tensor
from torch.nn.functional import cross_entropy

from northbridge.lightning.namespaces import NAMESPACES, Stock
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.models import MODELS, adam, seen
from northbridge_conformance.runs.scenario import Scenario, write


@atexit.register
def _end_reference_group() -> None:
    # Lightning leaves a Gloo group open. A Gloo thread that drops the last reference to a tensor needs the
    # interpreter; if it still waits for that when the interpreter ends, the process aborts. Every rank imports this
    # module, spawned ones too. The strategy ends the chip's own group.
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        torch.distributed.destroy_process_group()


def is_trainer(namespace: str) -> bool:
    """Return True if a namespace of Lightning has a Trainer; else it has a Fabric."""
    return NAMESPACES[namespace].is_trainer


def module_of(scenario: Scenario, module: str) -> Any:
    """Return a module of the scenario's namespace, such as ``"callbacks"``."""
    return import_module(f"{scenario.namespace}.{module}")


def trainer(scenario: Scenario, folder: Path, **arguments: Any) -> Any:
    """Return a seeded Trainer of the scenario's namespace for two epochs; ``arguments`` override the scenario's."""
    namespace: Any = import_module(scenario.namespace)
    namespace.seed_everything(1)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    asked = {**_placement(scenario), **quiet, "max_epochs": 2, "default_root_dir": folder}
    return namespace.Trainer(**{**asked, **arguments})


def fabric(scenario: Scenario, **arguments: Any) -> Any:
    """Return a seeded Fabric of the scenario's namespace; ``arguments`` override the scenario's."""
    namespace: Any = import_module(scenario.namespace)
    result = namespace.Fabric(**{**_placement(scenario), **arguments})
    result.seed_everything(1)
    return result


def _placement(scenario: Scenario) -> dict[str, Any]:
    devices = list(scenario.devices) if isinstance(scenario.devices, tuple) else scenario.devices
    if scenario.launch == "two nodes" and scenario.accelerator != "cpu" and isinstance(scenario.devices, int):
        # Both nodes are this machine, and a card may belong to one process only; else the scenario lists its devices.
        first = int(os.environ["NODE_RANK"]) * scenario.devices
        devices = list(range(first, first + scenario.devices))
    return {
        "accelerator": scenario.accelerator,
        "devices": devices,
        "num_nodes": scenario.num_nodes,
        "strategy": scenario.strategy,
    }


def own_rank() -> int:
    """Return the rank of this process, after the ranks have met."""
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def build(model: str) -> torch.nn.Module:
    """Return one of :data:`MODELS` with the same weights in every process."""
    torch.manual_seed(3)
    return MODELS[model]()


def combine(namespace: str, mixin: type, stock: str = "LightningModule") -> Any:
    """Return the class of ``mixin`` over Lightning's class ``stock`` in ``namespace``, the same one each time."""
    return _combine(namespace, mixin, stock)  # the type of a cached function rejects classes that derive from Any


@cache
def _combine(namespace: str, mixin: type, stock: str) -> Any:
    own = getattr(import_module(namespace), stock)
    return type(mixin.__name__, (mixin, own), {"__module__": mixin.__module__, "combined": (namespace, mixin)})


class _Classifier(Stock):  # type: ignore[misc]  # of Lightning's module
    """A LightningModule that trains a network; each rank reports."""

    combined: ClassVar[tuple[str, type]]

    def __init__(self, net: torch.nn.Module, folder: Path, topic: str) -> None:
        super().__init__()
        self.net = net
        self.folder, self.topic = folder, topic

    def __reduce__(self) -> tuple[object, ...]:
        # A spawned rank gets the module by pickle, and a class made in a function has no importable name.
        return _empty, self.combined, self.__dict__

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        pictures, labels = batch
        # In float32 also under autocast, as Fabric returns the scores: the CPU's autocast and an accelerator's
        # treat a loss differently.
        loss = cross_entropy(self.net(pictures).float(), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return adam(self.parameters())

    def on_train_end(self) -> None:
        write(self.folder, self.topic, self.global_rank, facts(self, self.trainer.strategy))


class _Validated(_Classifier):
    """A classifier that also logs its validation loss."""

    def validation_step(self, batch: Any, batch_index: int) -> None:
        self.log("validation loss", cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)


def classifier(namespace: str, model: str, folder: Path, topic: str, kind: type = _Classifier) -> Any:
    """Return a LightningModule of ``namespace`` that trains one of :data:`MODELS`; each rank reports ``topic``."""
    return combine(namespace, kind)(build(model), folder, topic)


def set_up(host: Any, model: str) -> Any:
    """Return one of :data:`MODELS` and its optimizer, set up by the Fabric ``host``."""
    net: Any = build(model)
    return host.setup(net, adam(net.parameters()))


def _empty(namespace: str, mixin: type) -> Any:
    cls = combine(namespace, mixin)
    return cls.__new__(cls)


def facts(module: Any, strategy: Any) -> dict[str, Any]:
    """Return a rank's facts about a trained module and the strategy that trained it."""
    root: torch.device = strategy.root_device
    return {
        **seen(module),
        "weights": fingerprint(module.state_dict()),
        "learnt": fingerprint(dict(module.named_parameters())),
        "parameters": len(list(module.parameters())),
        "parameter devices": sorted({str(parameter.device) for parameter in module.parameters()}),
        "module device": str(module.device),
        "root device": str(root),
        "current device": "cpu" if root.type == "cpu" else _current_device(strategy.backend.device),
        "strategy": type(strategy).__name__,
        "world size": strategy.world_size if hasattr(strategy, "world_size") else 1,
        "in use": [] if root.type == "cpu" else _devices_in_use(strategy.backend),
        "card": "" if root.type == "cpu" else _card(strategy.backend.device, root),
    }


def _current_device(device: Any) -> str:
    """Return the device that new tensors get when no index is given."""
    return str(torch.empty(0, device=device.type).device)


def _devices_in_use(backend: Any) -> list[str] | None:
    """Return the devices that hold tensors of this process; None for a chip without statistics of memory."""
    if backend.present_capabilities().memory_stats.denied:
        return None
    device = backend.device
    roots = {device.root(index) for index in range(device.count())}
    return sorted(str(root) for root in roots if device.memory_allocated(root.index) > 0)


def bytes_on_chip(backend: Any, root: Any) -> int:
    """Return the bytes that tensors of this process hold on the device ``root``; 0 if the chip does not count them."""
    backend.device.synchronize()
    is_counted = not backend.present_capabilities().memory_stats.denied
    return int(backend.device.memory_allocated(root.index)) if is_counted else 0


def _card(chip: Any, device: torch.device) -> str:
    """Return the chip's description of a device, for a vendor's own tests."""
    describe = getattr(chip.module, "get_device_properties", None)
    return str(describe(device)) if describe is not None else ""
