"""One node of a job on several vendors' chips: ``python mixed_job.py {"accelerator": "hpu", …}`` prints what it found.

The keys are those of :class:`Options`. Each rank prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

BATCH, FEATURES, STEPS = 4, 8, 20


@dataclass(frozen=True)
class Options:
    """What the job does. Its data are the same on every node, and each rank has its part of them."""

    accelerator: str = "auto"
    namespaces: list[str] = field(default_factory=lambda: ["lightning.pytorch"])
    devices: int = 1
    nodes: int = 2
    mixed: dict[str, Any] = field(default_factory=lambda: {"sync_every": 1})
    batch: int = BATCH
    optimizer: str = "SGD"
    clip: float | None = None
    epochs: int = 2
    precision: str = "32-true"
    resume: str | None = None
    save: str | None = None
    logs: bool = False
    gradients: list[float] | None = None
    """Of each rank, instead of a model's."""

    uneven: bool = False
    """True if the batches of the ranks then have other sizes."""

    modules: int = 1
    """How many modules the backward pass then goes through; with more than one, there are 30 steps."""

    ends: dict[str, Any] = field(default_factory=dict)
    """A rank, a step and a signal that this rank then gives itself."""


def rows() -> Any:
    """Return the data; the last batch of an epoch is smaller than the others."""
    return list(torch.randn(78, FEATURES, generator=torch.Generator().manual_seed(2)))


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, 1))


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    loss: Tensor = (model(batch).float() - batch.sum(1, keepdim=True).float()).square().mean()
    return loss


def make_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer; Muon, which multiplies matrices in its step, has the matrices alone."""
    trained = [each for each in model.parameters() if name != "Muon" or each.dim() == 2]
    made: torch.optim.Optimizer = getattr(torch.optim, name)(trained, lr=1e-2)
    return made


def weights_of(model: nn.Module) -> list[float]:
    return [number for each in model.parameters() for number in each.detach().cpu().flatten().tolist()]


def strategy_of(namespace: str, options: Options) -> Any:
    if not options.mixed:
        return "ddp_mixed"
    home = import_module(f"northbridge.lightning.{namespace.rpartition('.')[2]}")
    limits = {"timeout": timedelta(seconds=options.mixed.get("timeout", 60))}
    return home.MixedDDPStrategy(**{**options.mixed, **limits})


def arguments_of(namespace: str, options: Options) -> dict[str, Any]:
    """Return what a Trainer and a Fabric are given alike."""
    return {
        "accelerator": options.accelerator,
        "devices": options.devices,
        "num_nodes": options.nodes,
        "strategy": strategy_of(namespace, options),
        "precision": options.precision,
    }


def train_by_trainer(namespace: str, options: Options) -> dict[str, Any]:
    lightning = import_module(namespace)

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]  # of each namespace
        def __init__(self) -> None:
            super().__init__()
            self.inner = make_model()

        def training_step(self, batch: Tensor, index: int) -> Tensor:
            loss = loss_of(self.inner, batch)
            self.log("loss", loss, sync_dist=True, on_epoch=True)
            ends = options.ends
            if ends.get("rank") == self.global_rank and ends["step"] == self.global_step:
                os.kill(os.getpid(), getattr(signal, ends["signal"]))
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return make_optimizer(options.optimizer, self.inner)

    silent = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet: dict[str, Any] = dict.fromkeys(silent, False)
    if options.logs:
        quiet["logger"] = import_module(f"{namespace}.loggers").CSVLogger(".", "", "logged")
    lightning.seed_everything(3)
    quiet |= {"max_epochs": options.epochs, "gradient_clip_val": options.clip}
    trainer = lightning.Trainer(**arguments_of(namespace, options), **quiet)
    model = Model()
    trainer.fit(model, DataLoader(rows(), batch_size=options.batch, shuffle=True), ckpt_path=options.resume)
    if options.save:
        trainer.save_checkpoint(options.save)
    return {
        "weights": weights_of(model),
        "loss": trainer.callback_metrics["loss_epoch"].item(),
        "device": str(trainer.strategy.root_device),
        "distance": getattr(trainer.strategy, "distance", None),
        "rank": trainer.global_rank,
        "steps": trainer.global_step,
    }


def train_by_fabric(namespace: str, options: Options) -> dict[str, Any]:
    lightning = import_module(namespace)
    fabric = lightning.Fabric(**arguments_of(namespace, options))
    fabric.launch()
    model = make_model()
    module, optimizer = fabric.setup(model, make_optimizer(options.optimizer, model))
    loader = fabric.setup_dataloaders(DataLoader(rows(), batch_size=options.batch))
    loss = torch.zeros(())
    for _ in range(options.epochs):
        for batch in loader:
            optimizer.zero_grad()
            loss = loss_of(module, batch)
            fabric.backward(loss)
            optimizer.step()
    if options.save:
        fabric.save(options.save, {"model": module, "optimizer": optimizer})
    return {
        "weights": weights_of(module),
        "loss": fabric.all_reduce(loss.detach()).item(),
        "device": str(fabric.device),
        "rank": fabric.global_rank,
    }


class Scale(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.zeros(1, dtype=dtype))

    def forward(self, inputs: Tensor) -> Tensor:
        return (self.factor * inputs).sum()


def step_once(namespace: str, options: Options) -> dict[str, Any]:
    """Step by the mean of the gradients that the ranks are told."""
    assert options.gradients is not None
    fabric = import_module(namespace).Fabric(
        accelerator=options.accelerator,
        devices=options.devices,
        num_nodes=options.nodes,
        strategy=strategy_of(namespace, options),
    )
    fabric.launch()
    models = [Scale(getattr(torch, options.precision)) for _ in range(options.modules)]
    pairs = [fabric.setup(model, torch.optim.SGD(model.parameters(), lr=1.0)) for model in models]
    inputs = torch.zeros(1 + options.uneven * fabric.global_rank, 1)
    inputs[0] = options.gradients[fabric.global_rank]
    inputs = inputs.to(models[0].factor)
    for _ in range(30 if options.modules > 1 else 1):
        fabric.backward(sum(10**number * module(inputs) for number, (module, _) in enumerate(pairs)))
        for _, optimizer in pairs:
            optimizer.step()
            optimizer.zero_grad()
    return {"weights": [each for module, _ in pairs for each in weights_of(module)], "rank": fabric.global_rank}


def main(options: Options) -> None:
    found: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for namespace in options.namespaces:
            train = train_by_fabric if namespace.endswith("fabric") else train_by_trainer
            found[namespace] = (train if options.gradients is None else step_once)(namespace, options)
    told = [str(each.message) for each in caught if "batches" in str(each.message)]
    line = json.dumps({**found, "warned": told})
    os.write(1, f"\nfound {line}\n".encode())


if __name__ == "__main__":
    main(Options(**json.loads(sys.argv[1])))
