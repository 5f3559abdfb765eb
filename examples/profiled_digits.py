"""Profile a small ConvNet on two simulated chips: what ran on them, how often, and how long.

    .venv/bin/python examples/profiled_digits.py

It needs scikit-learn beside Northbridge and Lightning; `make setup` installs it.

Rank 0 prints Lightning's table of operators and the table of the device's events. Each rank writes its trace to
`profiles/`, for https://ui.perfetto.dev or chrome://tracing.
"""

from __future__ import annotations

import warnings

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.profilers import PyTorchProfiler
from torch import Tensor, nn
from torch.utils.data import DataLoader

from digits_task import build_convnet, load_sets


class Digits(LightningModule):
    """Learn to tell the ten digits apart."""

    def __init__(self) -> None:
        super().__init__()
        self.net = build_convnet()

    def training_step(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main() -> None:
    # Said by Lightning, which is older than this torch.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    seed_everything(0, verbose=False)
    train, *_ = load_sets()
    profiler = PyTorchProfiler(
        dirpath="profiles",
        row_limit=8,
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=3),
    )
    trainer = Trainer(
        accelerator="cpu_sim",
        devices=2,
        max_epochs=1,
        limit_train_batches=10,
        profiler=profiler,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )
    trainer.fit(Digits(), DataLoader(train, batch_size=32, shuffle=True))


if __name__ == "__main__":
    main()
