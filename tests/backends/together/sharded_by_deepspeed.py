"""Train with DeepSpeed on any accelerator: python sharded_by_deepspeed.py sdaa 2 [old.ckpt ...]

Writes the losses of each run, with what the process is left with, to ``sdaa-RANK.json``, and ``sdaa.ckpt``.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

BATCH, EPOCH, CLIP, RATE, GAMMA = 4, 4, 1.0, 0.01, 0.9  # EPOCH: steps of each rank


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        inputs, labels = batch
        loss = cross_entropy(self.layers(inputs).float(), labels)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=RATE)
        rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, GAMMA)
        return [optimizer], [{"scheduler": rates, "interval": "step"}]


def rows(ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = torch.Generator().manual_seed(1)
    many = EPOCH * BATCH * ranks
    return torch.randn(many, 8, generator=numbers), torch.randint(0, 3, (many,), generator=numbers)


@contextmanager
def fitted(accelerator: str, devices: int, strategy: Any, epochs: int = 1, **others: Any) -> Iterator[Any]:
    old = others.pop("ckpt_path", None)
    options: dict[str, Any] = {"logger": False, "precision": "32-true", **others}
    trainer = Trainer(
        accelerator=accelerator,
        devices=devices,
        strategy=strategy,
        max_epochs=epochs,
        gradient_clip_val=CLIP,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    model = Model()
    trainer.fit(model, DataLoader(TensorDataset(*rows(devices)), batch_size=BATCH), ckpt_path=old, weights_only=False)
    yield trainer, model.losses


def main(accelerator: str, devices: int, *old: str) -> None:
    found: dict[str, Any] = {}
    runs: dict[str, tuple[Any, dict[str, Any]]] = {
        "stage 0": (DeepSpeedStrategy(stage=0), {}),
        "stage 3, offloaded": ("deepspeed_stage_3_offload", {}),
        "stage 2, bfloat16": ("deepspeed", {"precision": "bf16-mixed"}),
        "stage 3, float16": ("deepspeed_stage_3", {"precision": "16-mixed"}),
        "stage 3": ("deepspeed_stage_3", {}),
    }
    trainer: Any = None
    for name, (strategy, options) in runs.items():
        with fitted(accelerator, devices, strategy, **options) as (host, losses):
            trainer, found[name] = host, losses
    rank = trainer.global_rank
    found["plugin"] = type(trainer.precision_plugin).__name__
    trainer.save_checkpoint(f"{accelerator}.ckpt")
    monitor = LearningRateMonitor("step")
    with fitted(accelerator, devices, "deepspeed_stage_3", 2) as (_, losses):
        found["two epochs"] = losses
    for file in (f"{accelerator}.ckpt", *old):
        logger = CSVLogger(".", name=f"rates of {accelerator}")
        more = {"callbacks": [monitor], "logger": logger, "log_every_n_steps": 1, "ckpt_path": file}
        with fitted(accelerator, devices, "deepspeed_stage_3", 2, **more) as (_, losses):
            found[f"resumed from {file}"] = losses
    found["rates"] = monitor.lrs
    found["deterministic"] = torch.are_deterministic_algorithms_enabled()
    found["fills memory"] = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    found["accelerator"] = os.environ.get("DS_ACCELERATOR")
    Path(f"{accelerator}-{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
