"""One rank of a training with each of Ray's strategies, in Ray's local mode: the workers are torchrun's processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from ray.train import ScalingConfig, lightning as rays
from ray.train.torch import TorchTrainer


class Model(LightningModule):
    """Two layers, whose weights and data are the same on each chip."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.losses: list[float] = []

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        loss = (self.layers(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.losses.append(self.all_gather(loss.detach()).mean().item())  # type: ignore[union-attr]  # one tensor in
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def rows() -> Any:
    drawn = torch.randn(24, 8, generator=torch.Generator().manual_seed(3))
    return torch.utils.data.DataLoader(drawn, batch_size=4)  # type: ignore[arg-type]  # a tensor is a data set


STRATEGIES = {
    "ddp": lambda: rays.RayDDPStrategy(),
    "fsdp": lambda: rays.RayFSDPStrategy(),
    "deepspeed": lambda: rays.RayDeepSpeedStrategy(stage=2, zero_allow_untested_optimizer=True),
}


def fit(chip: str, name: str) -> dict[str, Any]:
    before = torch.distributed.get_backend() if torch.distributed.is_initialized() else None
    seed_everything(1)
    trainer = rays.prepare_trainer(
        Trainer(
            accelerator=chip,
            devices="auto",
            strategy=STRATEGIES[name](),
            plugins=[rays.RayLightningEnvironment()],
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    )
    model = Model()
    trainer.fit(model, rows())
    return {
        "before": before,
        "library": torch.distributed.get_backend(),
        "device": str(trainer.strategy.root_device),
        "batches": len(model.losses),
        "losses": model.losses,
    }


def main(chip: str, names: list[str], answer: Path) -> None:
    found: dict[str, Any] = {}

    def train(config: dict[str, Any]) -> None:
        for name in names:
            found[name] = fit(chip, name)

    TorchTrainer(train, train_loop_config={}, scaling_config=ScalingConfig(num_workers=0)).fit()
    answer.write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), Path(sys.argv[3]))
