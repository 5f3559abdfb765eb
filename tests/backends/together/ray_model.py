"""A model, its data, and its training with Ray's strategies, for the cluster of test_ray.py."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from ray.train import lightning as rays  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from torch.utils.data import DataLoader, DistributedSampler

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
