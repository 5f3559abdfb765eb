"""The second of two ranks hangs in the third step: python hanging_rank.py"""

import time
from datetime import timedelta

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.strategies import DDPStrategy

from northbridge.launch import group_end

group_end.GRACE_SECONDS = 3.0


class Hanging(BoringModel):
    def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
        if batch_idx == 2 and self.global_rank == 1:
            time.sleep(1000)


strategy = DDPStrategy(timeout=timedelta(seconds=20))
Trainer(accelerator="hpu", devices=2, strategy=strategy, logger=False, enable_checkpointing=False).fit(Hanging())
