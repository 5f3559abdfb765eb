"""Count the markers of a Trainer's run: python markers.py devices=1"""

import sys
from collections import Counter

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

from northbridge_hpu.simulated import markers


class Counting(BoringModel):
    """Knows what has just ended, and how many markers were placed since the last time."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.seen = 0

    def count(self, what: str) -> None:
        self.found[what] += markers.placed - self.seen
        self.seen = markers.placed

    def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
        self.count("elsewhere")

    def on_before_optimizer_step(self, optimizer: object) -> None:
        self.count("after the backward of a whole batch")

    def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
        self.count("after the step" if batch_idx % 2 else "after the backward of a micro-batch")

    def on_validation_batch_start(self, batch: object, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.count("elsewhere")

    def on_validation_batch_end(self, outputs: object, batch: object, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.count("after a batch of validation")


model = Counting()
trainer = Trainer(
    accelerator="hpu",
    devices=int(sys.argv[1].removeprefix("devices=")),
    max_epochs=1,
    limit_train_batches=8,
    limit_val_batches=3,
    num_sanity_val_steps=0,
    accumulate_grad_batches=2,
    logger=False,
    enable_checkpointing=False,
)
trainer.fit(model)
if trainer.is_global_zero:
    del model.found["elsewhere"]
    print("8 batches, accumulated 2 by 2, and 3 of validation:", dict(model.found))
