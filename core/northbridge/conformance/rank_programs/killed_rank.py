"""Train with checkpoints until the last rank kills itself."""

from __future__ import annotations

import os
import signal
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.hosts import Classifier, classifier, trainer
from northbridge.conformance.runs.models import loader
from northbridge.conformance.runs.scenario import Scenario

KILLED_IN = 5
"""The step in which it does, counted from 0; a checkpoint is written after each step."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the moment of the kill; a rank that outlives it reports that the training went on to its end."""
    callbacks: Any = import_module(f"{scenario.namespace}.callbacks")
    checkpoints = callbacks.ModelCheckpoint(dirpath=folder, every_n_train_steps=1, save_last=True)
    host = trainer(scenario, folder, enable_checkpointing=True, callbacks=[checkpoints], max_epochs=100)
    host.fit(classifier(scenario.namespace, "mlp", folder, "killed_rank fit", _Dying), loader())
    write(folder, "went on", host.global_rank, {})


class _Dying(Classifier):
    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        if self.global_step == KILLED_IN and self.global_rank == self.trainer.world_size - 1:
            write(self.folder, "killed", 0, {"rank": self.global_rank, "at": time.time()})
            os.kill(os.getpid(), signal.SIGKILL)
        loss: Tensor = super().training_step(batch, batch_index)
        return loss
