"""Quantize a trained model to float8 for its test, on a simulated chip: first measure, then quantize.

    PYTHONPATH=.engines .venv/bin/python examples/float8_inference.py

It needs Neural Compressor and scikit-learn beside Northbridge and Lightning, and Python 3.11: `make setup engines`
installs them. For another chip that claims float8, write its name.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import Tensor, nn
from torch.utils.data import DataLoader

from digits_task import load_sets
from northbridge.lightning.pytorch import Float8Inference

FOLDER = Path("float8-measurements")


class Digits(LightningModule):
    """Learn to tell the ten digits apart, from their 64 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def validation_step(self, batch: list[Tensor]) -> None:
        self.net(batch[0])

    def test_step(self, batch: list[Tensor]) -> None:
        images, labels = batch
        right = (self.net(images).argmax(dim=1) == labels).float().mean()
        self.log("accuracy", right, batch_size=len(labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main() -> None:
    # Said by Lightning: it is older than this torch; the training is without validation.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*|.*val_dataloader.*")
    seed_everything(0, verbose=False)
    train, val, test = load_sets()
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    chip: dict[str, Any] = {"accelerator": "cpu_sim", "devices": 1, "enable_checkpointing": False, **quiet}
    model = Digits()
    trainer = Trainer(max_epochs=8, **chip)
    trainer.fit(model, DataLoader(train, batch_size=32, shuffle=True))
    (plain,) = trainer.test(model, DataLoader(test, batch_size=360), verbose=False)

    # The validation set shows which values each layer sees.
    measure = Float8Inference("measure", FOLDER)
    Trainer(plugins=measure, **chip).validate(model, DataLoader(val, batch_size=50), verbose=False)
    quantize = Float8Inference("quantize", FOLDER)
    (quantized,) = Trainer(plugins=quantize, **chip).test(model, DataLoader(test, batch_size=360), verbose=False)

    print(f"accuracy on held-out digits, in float32: {plain['accuracy']:.1%}")
    print(f"the same model, quantized to float8: {quantized['accuracy']:.1%}")


if __name__ == "__main__":
    main()
