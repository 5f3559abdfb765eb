"""Train for two epochs and keep a checkpoint of each; take a training up from one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from northbridge.conformance.rank_programs.training import train_epoch
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import build, classifier, fabric, is_trainer, trainer
from northbridge.conformance.runs.models import adam, loader
from northbridge.conformance.runs.scenario import Scenario

MODEL = "tied and normed"


def save(scenario: Scenario, folder: Path) -> None:
    """Train, and leave the checkpoints ``epoch=0.ckpt`` and ``epoch=1.ckpt`` in the run's folder."""
    if not is_trainer(scenario.namespace):
        fabric(scenario).launch(_save, folder)
        return
    callbacks: Any = import_module(f"{scenario.namespace}.callbacks")
    keep = callbacks.ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
    host = trainer(scenario, folder, callbacks=[keep], enable_checkpointing=True)
    host.fit(classifier(scenario.namespace, MODEL, folder, "checkpoints.save"), loader(shuffle=False))


def _save(host: Any, folder: Path) -> None:
    net, optimizer, batches = _prepare(host)
    for epoch in range(2):
        train_epoch(host, net, optimizer, batches)
        host.save(folder / f"epoch={epoch}.ckpt", {"net": net, "optimizer": optimizer, "epoch": epoch})
    write(folder, "checkpoints.save", host.global_rank, {"weights": fingerprint(net.state_dict())})


def _prepare(host: Any) -> tuple[Any, Any, Any]:
    """Return model, optimizer and batches in their order, set up by the Fabric ``host``."""
    net: Any = build(MODEL)
    optimizer: Any = adam(net.parameters())
    net, optimizer = host.setup(net, optimizer)
    return net, optimizer, host.setup_dataloaders(loader(shuffle=False))


def resume(scenario: Scenario, folder: Path) -> None:
    """Train the second epoch, after the first one of the run in the folder ``scenario.resume``, or of this run."""
    checkpoint = Path(scenario.resume or folder) / "epoch=0.ckpt"
    if is_trainer(scenario.namespace):
        module = classifier(scenario.namespace, MODEL, folder, "checkpoints.resume")
        trainer(scenario, folder).fit(module, loader(shuffle=False), ckpt_path=checkpoint)
    else:
        fabric(scenario).launch(_resume, checkpoint, folder)


def _resume(host: Any, checkpoint: Path, folder: Path) -> None:
    net, optimizer, batches = _prepare(host)
    rest = host.load(checkpoint, {"net": net, "optimizer": optimizer})
    train_epoch(host, net, optimizer, batches)
    found = {
        "weights": fingerprint(net.state_dict()),
        "parameters": len(list(net.parameters())),
        "epoch": rest["epoch"],
    }
    write(folder, "checkpoints.resume", host.global_rank, found)
