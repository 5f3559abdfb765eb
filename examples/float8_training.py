"""Train linear layers in float8 on a simulated chip, and open the checkpoint without float8.

    PYTHONPATH=.engines .venv/bin/python examples/float8_training.py

It needs torchao and scikit-learn beside Northbridge and Lightning: `make setup engines` installs them. The script does
not import Northbridge. For another chip that claims float8, write its name.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import Tensor, nn
from torch.utils.data import DataLoader

from digits_task import load_sets


class Digits(LightningModule):
    """Learn to tell the ten digits apart, from their 64 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        )

    def training_step(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images).float(), labels)

    def test_step(self, batch: list[Tensor]) -> None:
        images, labels = batch
        right = (self.net(images).argmax(dim=1) == labels).float().mean()
        self.log("accuracy", right, batch_size=len(labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main() -> None:
    # Said by Lightning: it is older than this torch, its summary counts no float8; rows may be repeated.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*|.*model summary.*")
    seed_everything(0, verbose=False)
    train, _, test = load_sets()
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Trainer(accelerator="cpu_sim", devices=1, precision="transformer-engine", max_epochs=8, **quiet)
    trainer.fit(Digits(), DataLoader(train, batch_size=32, shuffle=True))
    (in_float8,) = trainer.test(dataloaders=DataLoader(test, batch_size=360), ckpt_path="best", verbose=False)

    checkpoint = getattr(trainer.checkpoint_callback, "best_model_path", "")
    model = Digits.load_from_checkpoint(checkpoint)
    plain = Trainer(accelerator="cpu", devices=1, **quiet)
    (in_float32,) = plain.test(model, DataLoader(test, batch_size=360), verbose=False)

    print(f"accuracy on held-out digits, in float8: {in_float8['accuracy']:.1%}")
    print(f"the same checkpoint, in float32: {in_float32['accuracy']:.1%}")


if __name__ == "__main__":
    main()
