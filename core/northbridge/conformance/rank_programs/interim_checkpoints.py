"""Write checkpoints in the middle of a training, one of which cannot be written, and look at what that changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import Classifier, build, classifier, fabric, is_trainer, trainer
from northbridge.conformance.runs.models import adam, loader
from northbridge.conformance.runs.scenario import Scenario

MODEL = "tied"
FILE = "kept.ckpt"
SPOILT = "this cannot be pickled"
"""What is said of the value that spoils a checkpoint."""

_BATCH = 2
"""Of the first epoch, after which the checkpoints are written."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report what the model was like around each checkpoint, what became of the file, and the weights at the end."""
    kept = folder / "interim_checkpoints"
    kept.mkdir(exist_ok=True)
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder)  # which sets the seed, before the model does
        module = classifier(scenario.namespace, MODEL, kept, "interim_checkpoints fit", _Keeping)
        host.fit(module, loader())
        found, net = module.found, module
    else:
        host = fabric(scenario)
        host.launch()
        found, net = _loop(host, kept)
    write(folder, "interim_checkpoints", 0, {**found, "weights": fingerprint(net.state_dict())})


def _loop(host: Any, kept: Path) -> tuple[dict[str, Any], Any]:
    net: Any = build(MODEL)
    optimizer: Any = adam(net.parameters())
    net, optimizer = host.setup(net, optimizer)
    found: dict[str, Any] = {}
    batches = host.setup_dataloaders(loader())
    for epoch in range(2):
        for number, (images, labels) in enumerate(batches):
            optimizer.zero_grad()
            host.backward(cross_entropy(net(images), labels))
            optimizer.step()
            if (epoch, number) == (0, _BATCH):
                save = partial(_save, host, {"net": net, "optimizer": optimizer}, kept / FILE)
                found = _keep(net, kept / FILE, save)
    return found, net


def _save(host: Any, state: dict[str, Any], file: Path, spoils: dict[str, Any]) -> None:
    host.save(file, {**state, **spoils})


class _Keeping(Classifier):
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
    """Save, and save once more in the same place what cannot be saved as a whole."""
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
    """Notes what stands in a file while it is pickled itself, which fails."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seen: set[str] = set()

    def __reduce__(self) -> Any:
        self.seen.add(_bytes(self.file))
        raise ValueError(SPOILT)


def views(device: torch.device) -> dict[str, torch.Tensor]:
    """Return parts of a tensor of ``device``, which begin in other places of its memory, or lie otherwise in it."""
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
    return [[name, str(each.device), each.data_ptr()] for name, each in net.named_parameters(remove_duplicate=False)]


def _contents(file: Path) -> dict[str, Any]:
    """Return the devices of a file's tensors, as a machine opens it that has no chip, and whether tied weights are."""
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
