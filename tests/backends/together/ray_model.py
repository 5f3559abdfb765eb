"""A model, its data, and its training with Ray's strategies, for the cluster of test_ray.py and for one rank of two.

``ray_model.py CHIP STRATEGIES FILE`` is a rank in Ray's local mode, in which torchrun starts the workers: as where only
pytorch_lightning is installed, because Ray takes the other package if it finds it.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.modules["lightning"] = None  # type: ignore[assignment]  # its import fails

import torch
from ray.train import lightning as rays  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from torch.utils.data import DataLoader, DistributedSampler

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
else:  # of the package that Ray's strategies derive from
    package = import_module(rays.RayDDPStrategy.__mro__[1].__module__.removesuffix(".strategies.ddp"))
    Callback, LightningModule = package.Callback, package.LightningModule
    Trainer, seed_everything = package.Trainer, package.seed_everything

STRATEGIES = {
    "ddp": rays.RayDDPStrategy,
    "fsdp": rays.RayFSDPStrategy,
    "float16": rays.RayFSDPStrategy,
    "deepspeed": lambda: rays.RayDeepSpeedStrategy(stage=2),
}


class Model(LightningModule):
    """Two layers; the losses are the means over all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        self.losses: list[float] = []

    def training_step(self, batch: Tensor) -> Tensor:
        loss = self.loss(batch)
        # By torch's function: if it is imported in a worker, its default is the group that Ray began.
        gathered = all_gather(loss.detach())  # type: ignore[no-untyped-call]
        self.losses.append(torch.stack(gathered).mean().item())
        return loss

    def loss(self, batch: Tensor) -> Tensor:
        loss: Tensor = (self.layers(batch) - batch.sum(1, keepdim=True)).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def rows() -> Tensor:
    return torch.randn(24, 8, generator=torch.Generator().manual_seed(3))


def fit(chip: str, name: str, epochs: int, *callbacks: Callback, path: Any = None) -> dict[str, Any]:
    """Train for ``epochs``, from the checkpoint at ``path`` if there is one."""
    before = torch.distributed.get_backend()
    seed_everything(1)
    model = Model()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = rays.prepare_trainer(
        Trainer(
            accelerator=chip,
            devices="auto",
            strategy=STRATEGIES[name](),
            plugins=[rays.RayLightningEnvironment()],
            precision="16-mixed" if name == "float16" else None,
            max_epochs=epochs,
            callbacks=[*callbacks],
            **quiet,  # type: ignore[arg-type]
        )
    )
    trainer.fit(model, DataLoader(rows(), 4), ckpt_path=path)  # type: ignore[arg-type]
    return {
        "before": before,
        "library": torch.distributed.get_backend(),
        "device": str(trainer.strategy.root_device),
        "package": Trainer.__module__.partition(".")[0],
        "losses": model.losses,
        "step": trainer.global_step,
    }


def expected(epochs: int) -> list[float]:
    """Return the losses of plain torch, with gradients averaged over two ranks."""
    seed_everything(1)
    model, drawn, losses = Model(), rows(), []
    optimizer = model.configure_optimizers()
    samplers: list[Any] = [DistributedSampler(drawn, 2, rank, seed=1) for rank in (0, 1)]  # type: ignore[arg-type]
    for epoch in range(epochs):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        for batches in zip(*(DataLoader(drawn, 4, sampler=each) for each in samplers), strict=True):  # type: ignore[arg-type]
            loss = torch.stack([model.loss(batch) for batch in batches]).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    return losses


found: dict[str, Any] = {}


def train(config: dict[str, str]) -> None:
    for name in config["strategies"].split(","):
        found[name] = fit(config["chip"], name, 1)


if __name__ == "__main__":
    from ray.train import ScalingConfig  # pyright: ignore[reportMissingImports]
    from ray.train.torch import TorchTrainer  # pyright: ignore[reportMissingImports]

    found["expected"] = expected(1)
    chip, strategies, file = sys.argv[1:]
    TorchTrainer(
        train,
        train_loop_config={"chip": chip, "strategies": strategies},
        scaling_config=ScalingConfig(num_workers=0),
    ).fit()
    Path(file).write_text(json.dumps(found))
