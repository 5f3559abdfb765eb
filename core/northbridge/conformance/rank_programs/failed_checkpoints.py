"""Train on where a checkpoint could not be written or read, and save through what the user brings for that."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import Classifier, build, classifier, fabric, is_trainer, trainer
from northbridge.conformance.runs.models import adam, loader
from northbridge.conformance.runs.scenario import Scenario
from northbridge.errors import CheckpointError
from northbridge.lightning.namespaces import NAMESPACES

_NOWHERE = "/proc/last.ckpt"


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the errors, and the weights with which the training ended in spite of them."""
    if is_trainer(scenario.namespace):
        _fit(scenario, folder)
    else:
        fabric(scenario).launch(_loop, folder)


def _fit(scenario: Scenario, folder: Path) -> None:
    host = trainer(scenario, folder, max_epochs=1)
    plain = classifier(scenario.namespace, "mlp", folder, "failed_checkpoints fit")
    host.fit(plain, loader(shuffle=False))
    found: dict[str, Any] = {"weights": [fingerprint(plain.state_dict())]}
    failing = classifier(scenario.namespace, "mlp", folder, "failed_checkpoints fit", _Failing)
    host = trainer(scenario, folder, max_epochs=1)
    host.fit(failing, loader(shuffle=False))
    found["weights"].append(fingerprint(failing.state_dict()))
    found |= {"said": failing.said, "devices": sorted(failing.devices)}
    write(folder, "failed_checkpoints", host.global_rank, {**found, **_through_others(scenario, folder)})


def _through_others(scenario: Scenario, folder: Path) -> dict[str, Any]:
    ios: Any = import_module(f"{scenario.namespace}.plugins.io")
    stock: Any = NAMESPACES[scenario.namespace].fabric_module("plugins.io.torch_io").TorchCheckpointIO
    written: list[str] = []

    class Own(stock):  # type: ignore[misc]  # Lightning's class of this namespace
        def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
            written.extend(sorted({str(each.device) for each in checkpoint["state_dict"].values()}))
            super().save_checkpoint(checkpoint, path, storage_options=storage_options)

    found: dict[str, Any] = {}
    for name, io in (("own", Own()), ("asynchronous", ios.AsyncCheckpointIO())):
        host = trainer(scenario, folder, max_epochs=1, plugins=[io])
        module = classifier(scenario.namespace, "mlp", folder, "failed_checkpoints fit", _Failing)
        module.path = folder / f"{name}.ckpt"
        host.fit(module, loader(shuffle=False))
        host.strategy.barrier()
        saved = torch.load(module.path, weights_only=True)["state_dict"]
        found[name] = {"as it was": fingerprint(saved) == module.snapshot, "errors": module.said}
    return {**found, "own wrote": written}


def _try(action: Any, *arguments: Any) -> str:
    try:
        action(*arguments)
    except CheckpointError as error:
        return str(error)
    return "nothing was wrong"


class _Failing(Classifier):
    path: Any = _NOWHERE

    def __init__(self, net: torch.nn.Module, folder: Path, topic: str) -> None:
        super().__init__(net, folder, topic)
        self.said: list[str] = []
        self.devices: set[str] = set()
        self.snapshot = ""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_index: int) -> None:
        if batch_index != 1:
            return
        self.snapshot = fingerprint(self.state_dict())
        if self.path != _NOWHERE:
            self.trainer.save_checkpoint(self.path)
            return
        garbage = self.folder / f"garbage-{self.global_rank}.ckpt"
        garbage.write_bytes(b"no checkpoint")
        self.said.append(_try(self.trainer.save_checkpoint, self.path))
        self.said.append(_try(self.trainer.strategy.load_checkpoint, garbage, False))
        self.devices = {each.device.type for each in self.parameters()}


def _loop(host: Any, folder: Path) -> None:
    found: dict[str, Any] = {"weights": [], "said": []}
    for fails in (False, True):
        net: Any = build("mlp")
        optimizer: Any = adam(net.parameters())
        net, optimizer = host.setup(net, optimizer)
        for number, (images, labels) in enumerate(host.setup_dataloaders(loader(shuffle=False))):
            optimizer.zero_grad()
            host.backward(cross_entropy(net(images), labels))
            optimizer.step()
            if fails and number == 1:
                garbage = folder / f"garbage-{host.global_rank}.ckpt"
                garbage.write_bytes(b"no checkpoint")
                found["said"].append(_try(host.save, _NOWHERE, {"net": net}))
                found["said"].append(_try(host.load, garbage, {"net": net}))
        found["devices"] = sorted({each.device.type for each in net.parameters()})
        found["weights"].append(fingerprint(net.module.state_dict()))
    write(folder, "failed_checkpoints", host.global_rank, found)
