"""One of two ranks is killed in the third step: python killed_rank.py accelerator rank"""

import os
import signal
import sys

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

accelerator, killed = sys.argv[1:]


class Killed(BoringModel):
    def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
        if batch_idx == 2 and self.global_rank == int(killed):
            os.kill(os.getpid(), signal.SIGKILL)


Trainer(accelerator=accelerator, devices=2, logger=False, enable_checkpointing=False).fit(Killed())
