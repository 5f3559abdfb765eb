"""Rank 2 of this training waits for a file that never comes."""

from __future__ import annotations

import time
from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor


class Stuck(BoringModel):
    def training_step(self, batch: Tensor, batch_idx: int) -> STEP_OUTPUT:
        if batch_idx == 3 and self.global_rank == 2:
            wait_for(Path("labels.csv"))
        return super().training_step(batch, batch_idx)


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(1)


if __name__ == "__main__":
    Trainer(accelerator="cpu_sim", devices=4, max_steps=10, logger=False).fit(Stuck())
