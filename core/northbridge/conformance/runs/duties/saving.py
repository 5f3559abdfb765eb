"""Train for two epochs and keep a checkpoint of each."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from northbridge.conformance.runs.duties.looping import train_epoch
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import build, classifier, fabric, is_trainer, trainer
from northbridge.conformance.runs.models import adam, loader
from northbridge.conformance.runs.scenario import Scenario

MODEL = "tied and normed"


def perform(scenario: Scenario, folder: Path) -> None:
    """Train, and leave the checkpoints ``epoch=0.ckpt`` and ``epoch=1.ckpt`` in the run's folder."""
    if not is_trainer(scenario.namespace):
        fabric(scenario).launch(_loop, folder)
        return
    callbacks: Any = import_module(f"{scenario.namespace}.callbacks")
    keep = callbacks.ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
    host = trainer(scenario, folder, callbacks=[keep], enable_checkpointing=True)
    host.fit(classifier(scenario.namespace, MODEL, folder, "saving"), loader(shuffle=False))


def _loop(host: Any, folder: Path) -> None:
    net, optimizer, batches = prepare(host)
    for epoch in range(2):
        train_epoch(host, net, optimizer, batches)
        host.save(folder / f"epoch={epoch}.ckpt", {"net": net, "optimizer": optimizer, "epoch": epoch})
    write(folder, "saving", host.global_rank, {"weights": fingerprint(net.state_dict())})


def prepare(host: Any) -> tuple[Any, Any, Any]:
    """Return model, optimizer and batches in their order, set up by the Fabric ``host``."""
    net: Any = build(MODEL)
    optimizer: Any = adam(net.parameters())
    net, optimizer = host.setup(net, optimizer)
    return net, optimizer, host.setup_dataloaders(loader(shuffle=False))
