"""Train on any accelerator, from the start or from checkpoints: python train.py sdaa weights.ckpt [old.ckpt ...]

The script is the same for all: nothing in it knows what it runs on. No random number is drawn there. With one file
named, trains two epochs and writes it, and beside it what stood after the first; with more, goes on from each of them.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Digits(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        self.classes = torch.nn.Linear(4 * 6 * 6, 10)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, labels = batch
        return cross_entropy(self.classes(self.features(images).flatten(1)), labels)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)]


def read() -> DataLoader[Any]:
    seed_everything(1)
    images, labels = torch.randn(64, 1, 8, 8), torch.arange(64) % 10
    return DataLoader(TensorDataset(images, labels), batch_size=8)


def fit(accelerator: str, epochs: int, begun: str | None, file: Path) -> None:
    batches = read()
    trainer = Trainer(
        accelerator=accelerator,
        devices=1,
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Digits(), batches, ckpt_path=begun)
    trainer.save_checkpoint(file)
    print(f"{file.name} is written from {trainer.strategy.root_device}", flush=True)


accelerator, name, *begun = sys.argv[1:]
if begun:
    for each in begun:
        fit(accelerator, 2, each, Path(f"{Path(each).stem}-{name}"))
else:
    fit(accelerator, 1, None, Path(f"half-{name}"))
    fit(accelerator, 2, None, Path(name))
