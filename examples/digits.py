"""Train a small ConvNet on scikit-learn's handwritten digits, on two simulated chips.

    .venv/bin/python examples/digits.py

It needs scikit-learn and rich beside Northbridge and Lightning; `make setup` installs them.

The script does not import Northbridge: once that is installed, Lightning finds `accelerator="cpu_sim"` by name. For
another accelerator, write its name.
"""

from __future__ import annotations

import time
import warnings

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassAccuracy

from digits_task import build_convnet, load_sets


class Digits(LightningModule):
    """Learn to tell the ten digits apart."""

    def __init__(self, lr: float = 3e-3) -> None:
        super().__init__()
        self.lr = lr
        self.net = build_convnet()
        self.accuracy = MulticlassAccuracy(num_classes=10, average="micro")

    def training_step(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor]) -> None:
        images, labels = batch
        self.accuracy(self.net(images), labels)
        self.log("accuracy", self.accuracy, prog_bar=True)

    def test_step(self, batch: list[Tensor]) -> None:
        self.validation_step(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def main() -> None:
    # Said by Lightning: it is older than this torch; pictures may be repeated (360 of them on 2 ranks are not).
    warnings.filterwarnings("ignore", message=".*LeafSpec.*|.*DistributedSampler.*")
    seed_everything(0, verbose=False)
    train, val, test = load_sets()
    best = ModelCheckpoint("checkpoints", "digits", monitor="accuracy", mode="max", enable_version_counter=False)
    trainer = Trainer(
        accelerator="cpu_sim",
        devices=2,
        max_epochs=8,
        callbacks=[best],
        logger=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )

    start = time.perf_counter()
    trainer.fit(Digits(), DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=32))
    seconds = time.perf_counter() - start
    (result,) = trainer.test(dataloaders=DataLoader(test, batch_size=32), ckpt_path="best", verbose=False)

    if trainer.is_global_zero:
        show(trainer, accuracy=result["accuracy"], seconds=seconds)


def show(trainer: Trainer, *, accuracy: float, seconds: float) -> None:
    """Print the accuracy, the device and the time of the training."""
    backend = getattr(trainer.accelerator, "backend", None)  # Lightning's own accelerators have none
    simulated = backend is not None and backend.capabilities.simulated
    table = Table(title="Handwritten digits", show_header=False)
    table.add_row("accuracy on held-out digits", f"{accuracy:.1%}")
    table.add_row("device", str(trainer.strategy.root_device))
    table.add_row("ranks", str(trainer.world_size))
    table.add_row("seconds of training", f"{seconds:.1f}")
    table.add_row("simulated", "yes: the host's CPU acts for the chip" if simulated else "no")
    table.add_row("best checkpoint", "checkpoints/digits.ckpt")
    Console().print(table)


if __name__ == "__main__":
    main()
