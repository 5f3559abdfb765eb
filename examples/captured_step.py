"""Train a model of many small operations, step by step and with its step captured once, on the simulated chip.

    .venv/bin/python examples/captured_step.py

Both trainings end with the same weights, to the bit.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from northbridge.lightning.pytorch import CapturedStep

warnings.filterwarnings("ignore", message=".*(workers|simulated)")


class Small(LightningModule):
    """Twelve small layers."""

    def __init__(self) -> None:
        super().__init__()
        layers = [layer for _ in range(12) for layer in (nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU())]
        self.net = nn.Sequential(*layers)

    def training_step(self, batch: list[Tensor]) -> Tensor:
        loss: Tensor = self.net(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-3, capturable=True)


def fit(*callbacks: CapturedStep) -> Small:
    """Train for two epochs, and return the model."""
    seed_everything(0, verbose=False)
    model = Small()
    names = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    off: dict[str, Any] = dict.fromkeys(names, False)
    trainer = Trainer(accelerator="cpu_sim", devices=1, max_epochs=2, callbacks=[*callbacks], **off)
    trainer.fit(model, DataLoader(TensorDataset(torch.randn(400, 16)), batch_size=16))
    return model


if __name__ == "__main__":
    usual = fit()
    captured_step = CapturedStep()
    captured = fit(captured_step)
    pairs = zip(usual.state_dict().values(), captured.state_dict().values(), strict=True)
    print(f"{captured_step.captures} capture, {captured_step.replays} replays")
    print(f"equal weights: {all(torch.equal(one, other) for one, other in pairs)}")
