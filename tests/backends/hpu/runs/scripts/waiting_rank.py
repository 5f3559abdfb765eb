"""The second of two ranks sleeps in the third step, longer than the group's timeout: python waiting_rank.py"""

import os
import time
from datetime import timedelta

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.strategies import DDPStrategy


class Sleeping(BoringModel):
    def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
        if batch_idx == 2 and self.global_rank == 1:
            print(f"process {os.getpid()} sleeps", flush=True)
            time.sleep(1000)


strategy = DDPStrategy(timeout=timedelta(seconds=2))
Trainer(accelerator="hpu", devices=2, strategy=strategy, logger=False, enable_checkpointing=False).fit(Sleeping())
