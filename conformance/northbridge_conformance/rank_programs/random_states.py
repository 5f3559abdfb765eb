"""Train a model that draws random numbers on the chip and the host, uninterrupted and resumed from checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from northbridge.lightning.plugins.checkpoint_io import stock_format
from northbridge.lightning.plugins.random_states import KEY
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.hosts import _Classifier, classifier, lightnings, own_rank, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario

_BATCHES = 4
"""The number of batches in an epoch for each rank; there are two epochs."""

_WITHIN = 6
"""The step after which the checkpoint within an epoch is written."""

_AT_END = "epoch=0.ckpt"


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the weights of uninterrupted trainings, and of trainings resumed from their checkpoints."""
    within = f"step={_WITHIN}.ckpt"
    found = {
        "through": _fit(scenario, folder, _shuffled(), _keep(scenario, folder / "shuffled")),
        "after a sanity check": _fit(scenario, folder, _shuffled(), num_sanity_val_steps=2),
        "taken up at an epoch's end": _resume_epoch(scenario, folder, folder),
        "through, resumable": _fit(scenario, folder, Resumable(), _keep(scenario, folder / "resumable")),
        "taken up within an epoch": _fit(scenario, folder, Resumable(), checkpoint=folder / "resumable" / within),
    }
    rank = own_rank()
    bare = torch.load(folder / "shuffled" / _AT_END, weights_only=True)
    delattr(bare["loops"], KEY)
    with stock_format():
        torch.save(bare, folder / f"bare-{rank}.ckpt")
    without = _fit(scenario, folder, _shuffled(), checkpoint=folder / f"bare-{rank}.ckpt")
    found["taken up without the states"] = without
    write(folder, "random_states", rank, found)


def resume(scenario: Scenario, folder: Path) -> None:
    """Report the final weights of a training whose first epoch the run in ``scenario.resume`` saved."""
    weights = _resume_epoch(scenario, folder, Path(scenario.resume))
    write(folder, "random_states.resume", own_rank(), {"weights": weights})


def _resume_epoch(scenario: Scenario, folder: Path, kept: Path) -> str:
    """Return the weights after the second epoch, resumed from a checkpoint of the run in ``kept``."""
    return _fit(scenario, folder, _shuffled(), checkpoint=kept / "shuffled" / _AT_END)


def _fit(
    scenario: Scenario,
    folder: Path,
    batches: Any,
    callbacks: Any = None,
    checkpoint: Path | None = None,
    **arguments: Any,
) -> str:
    limits = {"limit_train_batches": _BATCHES, "num_sanity_val_steps": 0, **arguments}
    host = trainer(scenario, folder, **limits, callbacks=callbacks, enable_checkpointing=callbacks is not None)
    module = classifier(scenario.namespace, "dropout", folder, "random_states fit", _Drawing)
    host.fit(module, batches, loader(16, shuffle=False), ckpt_path=checkpoint)
    return fingerprint(module.state_dict())


def _keep(scenario: Scenario, folder: Path) -> list[Any]:
    callbacks = lightnings(scenario, "callbacks")
    return [
        callbacks.ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1),
        callbacks.ModelCheckpoint(dirpath=folder, filename="{step}", save_top_k=-1, every_n_train_steps=_WITHIN),
    ]


def _shuffled() -> Any:
    return loader(workers=1)  # its worker prefetches as soon as the first batch is requested


class Resumable:
    """Batches in a new random order for each epoch; iteration can be resumed within an epoch."""

    def __init__(self) -> None:
        self.batches: list[Any] = list(loader(8 * _BATCHES, shuffle=False))
        self.order: list[int] = []
        self.given: int = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        drawn = torch.randperm(len(self.batches)).tolist()  # also when resumed, as torch's loaders draw a seed
        if self.given == len(self.order):
            self.order, self.given = drawn, 0
        return self._rest()

    def _rest(self) -> Iterator[Any]:
        while self.given < len(self.order):
            self.given += 1
            yield self.batches[self.order[self.given - 1]]

    def state_dict(self) -> dict[str, Any]:
        """Return the order, and the number of batches already returned."""
        return {"order": self.order, "given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of another object."""
        self.order, self.given = state["order"], state["given"]


class _Drawing(_Classifier):
    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        pictures, labels = batch
        return super().training_step((pictures + torch.randn(()).item(), labels), batch_index)

    def validation_step(self, batch: Any, batch_index: int) -> None:
        torch.rand(3, device=self.device)
