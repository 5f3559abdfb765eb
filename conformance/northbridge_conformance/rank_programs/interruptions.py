"""Train with and without an interruption: SIGTERM, a rank that raises an error, or under torchrun a killed rank."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from torch import Tensor

from northbridge_conformance.rank_programs.random_states import Resumable
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.hosts import _Classifier, classifier, lightnings, own_rank, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario

EVERY_N_STEPS = 3
"""The number of steps between two checkpoints, in a training in which a rank is killed."""

INTERRUPTED = 5
"""The step during which the last rank gets the signal."""

KILLED_IN = 5
"""The step in which the last rank kills itself, counted from 0; a checkpoint is written after each step."""

RAISED = "no such row in the table of the last rank"
"""The error of the last rank, in that step."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the final weights of each training, and the step at which each resumed training began."""
    if scenario.launch == "restarts":
        last = folder / "last.ckpt"
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        sent = signal.SIGKILL if is_first else None
        found = {"after a restart": _fit(scenario, folder, last if last.exists() else None, sent)}
    else:
        found = {"through": _fit(scenario, folder)}
        try:
            found["ended by SIGTERM"] = _fit(scenario, folder, sent=signal.SIGTERM)
        except SystemExit:
            found["taken up"] = _fit(scenario, folder, folder / "on_exception.ckpt")
    write(folder, "interruptions", own_rank(), found)


def _fit(
    scenario: Scenario, folder: Path, checkpoint: Path | None = None, sent: signal.Signals | None = None
) -> dict[str, Any]:
    callbacks = lightnings(scenario, "callbacks")
    if scenario.launch == "restarts":
        keep = callbacks.ModelCheckpoint(dirpath=folder, every_n_train_steps=EVERY_N_STEPS, save_last=True)
    else:
        keep = callbacks.OnExceptionCheckpoint(folder)
    host = trainer(scenario, folder, enable_checkpointing=True, callbacks=[keep])
    module = classifier(scenario.namespace, "dropout", folder, "interruptions fit", _Interrupted)
    module.sent = sent
    host.fit(module, Resumable(), ckpt_path=checkpoint)
    return {"weights": fingerprint(module.state_dict()), "began": module.began}


class _Interrupted(_Classifier):
    sent: signal.Signals | None = None
    began: int | None = None

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        if self.began is None:
            self.began = self.global_step
        is_last = self.global_rank == self.trainer.world_size - 1
        if self.sent is not None and is_last and self.global_step == INTERRUPTED:
            os.kill(os.getpid(), self.sent)
        return super().training_step(batch, batch_index)


def killed_rank(scenario: Scenario, folder: Path) -> None:
    """Train with checkpoints until the last rank kills itself and reports the time.

    A rank that survives reports that the training went on to its end.
    """
    callbacks = lightnings(scenario, "callbacks")
    checkpoints = callbacks.ModelCheckpoint(dirpath=folder, every_n_train_steps=1, save_last=True)
    _lose_rank(scenario, folder, _Dying, enable_checkpointing=True, callbacks=[checkpoints])


def raising_rank(scenario: Scenario, folder: Path) -> None:
    """Train until the last rank raises an error and reports the time."""
    _lose_rank(scenario, folder, _Raising)


def _lose_rank(scenario: Scenario, folder: Path, kind: type, **arguments: Any) -> None:
    host = trainer(scenario, folder, max_epochs=100, **arguments)
    host.fit(classifier(scenario.namespace, "mlp", folder, "interruptions lost rank fit", kind), loader())
    write(folder, "went on", host.global_rank, {})


class _Dying(_Classifier):
    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        if self.global_step == KILLED_IN and self.global_rank == self.trainer.world_size - 1:
            write(self.folder, "lost", 0, {"rank": self.global_rank, "at": time.time()})
            self.die()
        return super().training_step(batch, batch_index)

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class _Raising(_Dying):
    def die(self) -> None:
        raise LookupError(RAISED)
