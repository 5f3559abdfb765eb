"""Train and save checkpoints, also within an epoch and to a path that cannot be written; resume a training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from northbridge.errors import CheckpointError
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.rank_programs.training import train_epoch
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import address_of, fingerprint
from northbridge_conformance.runs.hosts import _Classifier, classifier, fabric, is_trainer, lightnings, set_up, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario

MODEL = "tied and normed"
INTERIM_MODEL = "tied"
FILE = "kept.ckpt"
SPOILT = "this cannot be pickled"
"""The message of the error that the unpicklable value of a checkpoint raises."""

_BATCH = 2
"""The batch of the first epoch after which the checkpoints are written."""

_NOWHERE = "/proc/last.ckpt"


def save(scenario: Scenario, folder: Path) -> None:
    """Train, and write the checkpoints ``epoch=0.ckpt`` and ``epoch=1.ckpt`` into the run's folder."""
    if not is_trainer(scenario.namespace):
        fabric(scenario).launch(_save, folder)
        return
    callbacks = lightnings(scenario, "callbacks")
    keep = callbacks.ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
    host = trainer(scenario, folder, callbacks=[keep], enable_checkpointing=True)
    host.fit(classifier(scenario.namespace, MODEL, folder, "checkpoints.save"), loader(shuffle=False))


def _save(host: Any, folder: Path) -> None:
    net, optimizer = set_up(host, MODEL)
    batches = host.setup_dataloaders(loader(shuffle=False))
    for epoch in range(2):
        train_epoch(host, net, optimizer, batches)
        host.save(folder / f"epoch={epoch}.ckpt", {"net": net, "optimizer": optimizer, "epoch": epoch})
    write(folder, "checkpoints.save", host.global_rank, {"weights": fingerprint(net.state_dict())})


def resume(scenario: Scenario, folder: Path) -> None:
    """Train the second epoch from the first epoch's checkpoint of ``scenario.resume``, or else of this run's folder."""
    checkpoint = Path(scenario.resume or folder) / "epoch=0.ckpt"
    if is_trainer(scenario.namespace):
        module = classifier(scenario.namespace, MODEL, folder, "checkpoints.resume")
        trainer(scenario, folder).fit(module, loader(shuffle=False), ckpt_path=checkpoint)
    else:
        fabric(scenario).launch(_resume, checkpoint, folder)


def _resume(host: Any, checkpoint: Path, folder: Path) -> None:
    net, optimizer = set_up(host, MODEL)
    batches = host.setup_dataloaders(loader(shuffle=False))
    rest = host.load(checkpoint, {"net": net, "optimizer": optimizer})
    train_epoch(host, net, optimizer, batches)
    found = {
        "weights": fingerprint(net.state_dict()),
        "parameters": len(list(net.parameters())),
        "epoch": rest["epoch"],
    }
    write(folder, "checkpoints.resume", host.global_rank, found)


def interim(scenario: Scenario, folder: Path) -> None:
    """Report the model around each checkpoint, the state of the file, and the weights at the end."""
    kept = folder / "interim"
    kept.mkdir(exist_ok=True)
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder)  # seeds before the model is built
        module = classifier(scenario.namespace, INTERIM_MODEL, kept, "checkpoints.interim fit", _Keeping)
        host.fit(module, loader())
        found, net = module.found, module
    else:
        host = fabric(scenario)
        host.launch()
        found, net = _loop_interim(host, kept)
    write(folder, "checkpoints.interim", 0, {**found, "weights": fingerprint(net.state_dict())})


def _loop_interim(host: Any, kept: Path) -> tuple[dict[str, Any], Any]:
    net, optimizer = set_up(host, INTERIM_MODEL)
    state = {"net": net, "optimizer": optimizer}
    found: dict[str, Any] = {}
    batches = host.setup_dataloaders(loader())
    for epoch in range(2):
        for number, (images, labels) in enumerate(batches):
            optimizer.zero_grad()
            host.backward(cross_entropy(net(images), labels))
            optimizer.step()
            if (epoch, number) == (0, _BATCH):
                found = _keep(net, kept / FILE, lambda spoils: host.save(kept / FILE, {**state, **spoils}))
    return found, net


class _Keeping(_Classifier):
    spoils: dict[str, Any]

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_index: int) -> None:
        if (self.current_epoch, batch_index) == (0, _BATCH):
            self.found = _keep(self, self.folder / FILE, self._save)

    def _save(self, spoils: dict[str, Any]) -> None:
        self.spoils = spoils
        self.trainer.save_checkpoint(self.folder / FILE)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint.update(self.spoils)


def _keep(net: torch.nn.Module, file: Path, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Save a checkpoint, then save one that fails to pickle to the same file; report the model and the file."""
    before = _places(net)
    save({"views": views(next(net.parameters()).device)})
    found: dict[str, Any] = {"before": before, "after": _places(net), **_contents(file)}
    whole = _bytes(file)
    spoilt = _Spoilt(file)
    try:
        save({"spoilt": spoilt})
    except Exception as error:  # noqa: BLE001  # which one it was is what the test asks
        found["error"] = f"{type(error).__name__}: {error}"
    return {
        **found,
        "whole while another was written": spoilt.seen == {whole},
        "whole afterwards": _bytes(file) == whole,
        "files": sorted(each.name for each in file.parent.iterdir()),
    }


class _Spoilt:
    """Records the bytes of a file while it is pickled; pickling it raises."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seen: set[str] = set()

    def __reduce__(self) -> Any:
        self.seen.add(_bytes(self.file))
        raise ValueError(SPOILT)


def views(device: torch.device) -> dict[str, torch.Tensor]:
    """Return views of one tensor on ``device``, with different offsets and strides."""
    whole = torch.arange(12.0).reshape(3, 4).to(device)
    left, right = whole.chunk(2, 1)
    rows = {"first row": whole[0], "second row": whole[1], "the second again": whole[1]}
    return {
        **rows,
        "turned": whole.t(),
        "left": left,
        "right": right,
        "every other": whole[1:, ::2],
        "wide": whole[2, 3:].expand(3),
    }


def _bytes(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _places(net: torch.nn.Module) -> list[list[Any]]:
    return [[name, str(each.device), address_of(each)] for name, each in net.named_parameters(remove_duplicate=False)]


def _contents(file: Path) -> dict[str, Any]:
    """Return devices, tied weights and views of a checkpoint, loaded as on a machine without the chip."""
    checkpoint: dict[str, Any] = torch.load(file, weights_only=True)
    weights = checkpoint.get("state_dict", checkpoint.get("net"))
    assert weights is not None
    named = {name.removeprefix("net."): each for name, each in weights.items()}
    memory = {named[name].untyped_storage().data_ptr() for name in ("first.weight", "second.weight")}
    return {
        "devices": sorted({str(each.device) for each in named.values()}),
        "tied": len(memory) == 1,
        "views": {name: each.tolist() for name, each in checkpoint["views"].items()},
    }


def failed(scenario: Scenario, folder: Path) -> None:
    """Report the errors, and the weights at the end of the training that continued after them."""
    if is_trainer(scenario.namespace):
        _fit_failing(scenario, folder)
    else:
        fabric(scenario).launch(_loop_failing, folder)


def _fit_failing(scenario: Scenario, folder: Path) -> None:
    host = trainer(scenario, folder, max_epochs=1)
    plain = classifier(scenario.namespace, "mlp", folder, "checkpoints.failed fit")
    host.fit(plain, loader(shuffle=False))
    found: dict[str, Any] = {"weights": [fingerprint(plain.state_dict())]}
    failing = classifier(scenario.namespace, "mlp", folder, "checkpoints.failed fit", _Failing)
    host = trainer(scenario, folder, max_epochs=1)
    host.fit(failing, loader(shuffle=False))
    found["weights"].append(fingerprint(failing.state_dict()))
    found |= {"said": failing.said, "devices": sorted(failing.devices)}
    write(folder, "checkpoints.failed", host.global_rank, {**found, **_through_others(scenario, folder)})


def _through_others(scenario: Scenario, folder: Path) -> dict[str, Any]:
    ios = lightnings(scenario, "plugins.io")
    stock: Any = NAMESPACES[scenario.namespace].fabric_module("plugins.io.torch_io").TorchCheckpointIO
    written: list[str] = []

    class Own(stock):  # type: ignore[misc]  # Lightning's class of this namespace
        def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
            written.extend(sorted({str(each.device) for each in checkpoint["state_dict"].values()}))
            super().save_checkpoint(checkpoint, path, storage_options=storage_options)

    found: dict[str, Any] = {}
    for name, io in (("own", Own()), ("asynchronous", ios.AsyncCheckpointIO())):
        host = trainer(scenario, folder, max_epochs=1, plugins=[io])
        module = classifier(scenario.namespace, "mlp", folder, "checkpoints.failed fit", _Failing)
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


class _Failing(_Classifier):
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


def _loop_failing(host: Any, folder: Path) -> None:
    found: dict[str, Any] = {"weights": [], "said": []}
    for fails in (False, True):
        net, optimizer = set_up(host, "mlp")
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
    write(folder, "checkpoints.failed", host.global_rank, found)
