"""Train on four cards of a server that another job uses too, and hold them until Enter is pressed."""

import torch  # noqa: F401, I001 - the simulated Gaudi comes with it
import habana_frameworks.torch.distributed.hccl  # noqa: F401 - it writes MASTER_PORT=12345

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from northbridge_hpu.cards import cards

trainer = Trainer(accelerator="hpu", devices=4, max_steps=4, logger=False, enable_checkpointing=False)
trainer.fit(BoringModel())

if trainer.is_global_zero:
    input("trained\n")
    print("held now: modules", *sorted(card.module for card in cards() if card.is_held))
trainer.strategy.barrier()
