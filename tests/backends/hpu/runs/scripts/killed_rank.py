"""One of two ranks is killed in the third step: python killed_rank.py 1"""

import os
import signal
import sys

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel


class Killed(BoringModel):
    def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
        if batch_idx == 2 and self.global_rank == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)


Trainer(accelerator="hpu", devices=2, logger=False, enable_checkpointing=False).fit(Killed())
