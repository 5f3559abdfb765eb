"""Train twice on two devices of an accelerator, without and with the callbacks; rank 0 prints what it found."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

import northbridge
from northbridge.lightning.pytorch import CapturedStep, RecompilationMonitor

BOUNDARIES = [4, 8]
LENGTHS = [1 + index * 3 % 8 for index in range(41)]


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 16)
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 2))

    def training_step(self, batch: Tensor, index: int) -> Tensor:
        out = self.layers(self.embedding(batch))
        self.log("mean", out.mean(), on_step=True, on_epoch=True, sync_dist=True)
        loss: Tensor = out.float().square().mean()
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)


def train(accelerator: str, *callbacks: Any) -> tuple[list[Any], Trainer]:
    torch.manual_seed(1)
    samples = [torch.full((length,), length % 8) for length in LENGTHS]
    batches = northbridge.BucketBatchSampler(LENGTHS, 4, BOUNDARIES, shuffle=True)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(
        accelerator=accelerator,
        devices=2,
        max_epochs=2,
        precision="bf16-mixed",
        gradient_clip_val=0.5,
        callbacks=[*callbacks],
        **quiet,  # type: ignore[arg-type]
    )
    model = Model()
    trainer.fit(model, DataLoader(samples, batch_sampler=batches, collate_fn=northbridge.PaddingCollate(BOUNDARIES)))  # type: ignore[arg-type]
    numbers = [*model.parameters(), trainer.callback_metrics["mean_epoch"]]
    return [each.detach().float().cpu().tolist() for each in numbers], trainer


if __name__ == "__main__":
    captured, monitor = CapturedStep(), RecompilationMonitor()
    plain, _ = train(sys.argv[1])
    same, trainer = train(sys.argv[1], captured)
    watched, _ = train(sys.argv[1], monitor)
    if trainer.is_global_zero:
        found = {"captured": same == plain, "watched": watched == plain, "replays": captured.replays}
        print(json.dumps({**found, "captures": captured.captures, "graphs": monitor.rank_graphs}))
