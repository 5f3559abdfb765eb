"""Train to the end of an epoch, from the start or from a checkpoint: python resume.py accelerator epochs [checkpoint]

Writes <accelerator>.ckpt.
"""

import sys

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel


class Model(BoringModel):
    def configure_optimizers(self) -> torch.optim.Adam:  # type: ignore[override]
        return torch.optim.Adam(self.parameters(), lr=0.1)


accelerator, epochs, *checkpoint = sys.argv[1:]
seed_everything(1)
trainer = Trainer(
    accelerator=accelerator,
    devices=1,
    max_epochs=int(epochs),
    limit_train_batches=4,
    limit_val_batches=0,
    logger=False,
    enable_checkpointing=False,
)
trainer.fit(Model(), ckpt_path=checkpoint[0] if checkpoint else None)
trainer.save_checkpoint(f"{accelerator}.ckpt")
print(
    f"{accelerator}: {trainer.global_step} steps, {'the first 4 of them in another run' if checkpoint else 'all here'}"
)
