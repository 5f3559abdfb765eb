"""Train and save on torch's lazy device in one process, and write down what came of it beside the CPU's."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader

DATA = torch.linspace(-1, 1, 24).reshape(6, 4)


class Net(pl.LightningModule):
    """Two layers with one weight, whose optimizer is made before the model moves."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        made: Any = getattr(torch.optim, kind)
        self.optimizer = made(self.parameters(), 0.1)
        self.grad_modes: set[str] = set()

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.second(torch.tanh(self.first(given)))
        return found

    def training_step(self, batch: torch.Tensor, _index: int) -> torch.Tensor:
        loss: torch.Tensor = self(batch).pow(2).mean()
        return loss

    def validation_step(self, batch: torch.Tensor, _index: int) -> None:
        self.grad_modes.add(f"{torch.is_inference_mode_enabled()} {torch.is_grad_enabled()}")
        out = self(batch).view(-1)
        out.add_(1)
        self.log("loss", out.pow(2).mean())

    test_step = validation_step

    def predict_step(self, batch: torch.Tensor, _index: int) -> torch.Tensor:
        self.grad_modes.add(f"{torch.is_inference_mode_enabled()} {torch.is_grad_enabled()}")
        found: torch.Tensor = self(batch)
        return found

    def configure_optimizers(self) -> Any:
        return [self.optimizer], [torch.optim.lr_scheduler.StepLR(self.optimizer, 1)]


def trainer(accelerator: str, epochs: int, folder: Path) -> Any:
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger"), False)
    return pl.Trainer(
        accelerator=accelerator,
        devices=1,
        max_epochs=epochs,
        default_root_dir=folder,
        **quiet,  # type: ignore[arg-type]
    )


def loader() -> Any:
    return DataLoader(DATA, batch_size=2)  # type: ignore[arg-type]  # a tensor is a data set


def distance(mine: nn.Module, theirs: nn.Module) -> float:
    pairs = zip(mine.state_dict().values(), theirs.state_dict().values(), strict=True)
    return float(max((one - other).abs().max().item() for one, other in pairs))


def fit(accelerator: str, kind: str, folder: Path) -> tuple[Net, Any]:
    """Train one epoch, save, and take the training up for another."""
    pl.seed_everything(1, verbose=False)
    before = Net(kind)
    host = trainer(accelerator, 1, folder)
    host.fit(before, loader(), loader())
    host.save_checkpoint(folder / f"{accelerator}.ckpt")
    net = Net(kind)
    host = trainer(accelerator, 2, folder)
    host.fit(net, loader(), loader(), ckpt_path=folder / f"{accelerator}.ckpt", weights_only=True)
    return net, host


def train(kind: str, folder: Path) -> dict[str, Any]:
    (mine, host), (theirs, _) = fit("lazy", kind, folder), fit("cpu", kind, folder)
    held = [each for group in host.optimizers[0].param_groups for each in group["params"]]
    return {
        "distance": distance(mine, theirs),
        "moved": distance(mine, Net(kind)) > 0.01,
        "tied": mine.second.weight is mine.first.weight,
        "holds": [id(each) for each in held] == [id(each) for each in mine.parameters()],
    }


def evaluate(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for accelerator in ("lazy", "cpu"):
        pl.seed_everything(1, verbose=False)
        net, host = Net("SGD"), trainer(accelerator, 1, folder)
        losses = [host.validate(net, loader(), verbose=False), host.test(net, loader(), verbose=False)]
        predicted = torch.cat(host.predict(net, loader())).cpu()
        found[accelerator] = {
            "losses": [each[0]["loss"] for each in losses],
            "predicted": predicted.tolist(),
            "modes": sorted(net.grad_modes),
        }
    return found


def loop(together: bool) -> dict[str, Any]:
    nets = {}
    for accelerator in ("lazy", "cpu"):
        torch.manual_seed(1)
        host = Fabric(accelerator=accelerator, devices=1)
        nets[accelerator] = net = Net("Adam")
        optimizer: Any = net.optimizer
        if together:
            model, optimizer = host.setup(net, optimizer)
        else:
            model, optimizer = host.setup_module(net), host.setup_optimizers(optimizer)
        for batch in host.setup_dataloaders(loader()):
            optimizer.zero_grad()
            host.backward(model(batch).pow(2).mean())
            optimizer.step()
    mine, theirs = nets["lazy"], nets["cpu"]
    return {
        "distance": distance(mine.cpu(), theirs),
        "moved": distance(mine.cpu(), Net("Adam")) > 0.01,
    }


def save(folder: Path) -> dict[str, Any]:
    host = Fabric(accelerator="lazy", devices=1)
    weight = host.to_device(torch.arange(12.0).reshape(3, 4))
    views = {
        "rows": [weight[0], weight[1]],
        "turned": weight.t(),
        "chunks": weight.chunk(2, 1),
        "again": (weight, weight),
        "device": weight.device,
    }
    host.save(folder / "views.ckpt", views)
    opened: Any = torch.load(folder / "views.ckpt", weights_only=True)
    first, second = opened["again"]
    return {
        "rows": [each.tolist() for each in opened["rows"]],
        "turned": opened["turned"].tolist(),
        "chunks": [each.tolist() for each in opened["chunks"]],
        "shared": first.data_ptr() == second.data_ptr(),
        "devices": [str(opened["device"]), str(first.device)],
    }


def inference() -> str:
    host = Fabric(accelerator="lazy", devices=1)
    model = host.setup(nn.Linear(4, 4))
    try:
        with torch.inference_mode():
            model(host.to_device(DATA))
    except Exception as error:  # noqa: BLE001  # which one it is is what the test asks
        return f"{type(error).__name__}: {error}"
    return "nothing"


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="lightning")
    place = Path(sys.argv[1])
    found = {
        "SGD": train("SGD", place),
        "Adam": train("Adam", place),
        "evaluation": evaluate(place),
        "together": loop(together=True),
        "apart": loop(together=False),
        "saved": save(place),
        "inference": inference(),
    }
    (place / "found.json").write_text(json.dumps(found))
