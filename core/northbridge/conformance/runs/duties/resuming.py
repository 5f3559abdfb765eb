"""Take a training up where another run's checkpoint left it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from northbridge.conformance.runs.duties.looping import train_epoch
from northbridge.conformance.runs.duties.saving import MODEL, prepare
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import classifier, fabric, is_trainer, trainer
from northbridge.conformance.runs.models import loader
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Train the second epoch, after the first one of the run in the folder ``scenario.resume``, or of this run."""
    checkpoint = Path(scenario.resume or folder) / "epoch=0.ckpt"
    if is_trainer(scenario.namespace):
        module = classifier(scenario.namespace, MODEL, folder, "resuming")
        trainer(scenario, folder).fit(module, loader(shuffle=False), ckpt_path=checkpoint)
    else:
        fabric(scenario).launch(_loop, checkpoint, folder)


def _loop(host: Any, checkpoint: Path, folder: Path) -> None:
    net, optimizer, batches = prepare(host)
    rest = host.load(checkpoint, {"net": net, "optimizer": optimizer})
    train_epoch(host, net, optimizer, batches)
    found = {
        "weights": fingerprint(net.state_dict()),
        "parameters": len(list(net.parameters())),
        "epoch": rest["epoch"],
    }
    write(folder, "resuming", host.global_rank, found)
