"""Train through, and after an end that the training did not choose: SIGTERM, and under torchrun a killed rank."""

from __future__ import annotations

import os
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from northbridge.conformance.rank_programs.random_states import Resumable
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import Classifier, classifier, trainer
from northbridge.conformance.runs.scenario import Scenario

EVERY_N_STEPS = 3
"""How often a checkpoint is written of a training in which a rank is killed."""

INTERRUPTED = 5
"""The step before whose end the last rank gets the signal."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report with which weights the trainings ended, and with which step those began that were taken up."""
    if scenario.launch == "restarts":
        last = folder / "last.ckpt"
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        found = {
            "after a restart": _fit(
                scenario, folder, last if last.exists() else None, signal.SIGKILL if is_first else None
            )
        }
    else:
        found = {"through": _fit(scenario, folder)}
        try:
            found["ended by SIGTERM"] = _fit(scenario, folder, sent=signal.SIGTERM)
        except SystemExit:
            found["taken up"] = _fit(scenario, folder, folder / "on_exception.ckpt")
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    write(folder, "interruptions", rank, found)


def _fit(
    scenario: Scenario, folder: Path, checkpoint: Path | None = None, sent: signal.Signals | None = None
) -> dict[str, Any]:
    callbacks: Any = import_module(f"{scenario.namespace}.callbacks")
    keep: dict[str, Any] = {"dirpath": folder, "every_n_train_steps": EVERY_N_STEPS, "save_last": True}
    host = trainer(
        scenario,
        folder,
        enable_checkpointing=True,
        callbacks=[
            callbacks.ModelCheckpoint(**keep)
            if scenario.launch == "restarts"
            else callbacks.OnExceptionCheckpoint(folder)
        ],
    )
    module = classifier(scenario.namespace, "dropout", folder, "interruptions fit", _Interrupted)
    module.sent = sent
    host.fit(module, Resumable(), ckpt_path=checkpoint)
    return {"weights": fingerprint(module.state_dict()), "began": module.began}


class _Interrupted(Classifier):
    sent: signal.Signals | None = None
    began: int | None = None

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        if self.began is None:
            self.began = self.global_step
        is_last = self.global_rank == self.trainer.world_size - 1
        if self.sent is not None and is_last and self.global_step == INTERRUPTED:
            os.kill(os.getpid(), self.sent)
        loss: Tensor = super().training_step(batch, batch_index)
        return loss
