"""A training of seconds: ``python -m northbridge.diagnostics.training_child NAME NAMESPACE CARDS``.

``northbridge doctor --train`` starts the first process and reads its report. Lightning starts the further ranks as it
starts a user's script.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from importlib import import_module

import torch
from torch import Tensor, nn

import northbridge.lightning  # if torch does not start Northbridge
from northbridge.diagnostics.namespaces import one_machine
from northbridge.errors import NorthbridgeError
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.processes.child import Reporter
from northbridge.processes.endings import describe_error

_STEPS = 40


def main(name: str, namespace_name: str, cards: int) -> None:
    """Train, and report from the first rank."""
    namespace, report = NAMESPACES[namespace_name], None
    if "LOCAL_RANK" not in os.environ:  # set by Lightning in the ranks that it starts
        report = Reporter()
        report.begin("load")
    try:
        northbridge.load(name)
        import_module(namespace.name)
        if report:
            report.begin("train")
        facts = (_with_trainer if namespace.is_trainer else _with_fabric)(namespace, name, cards)
    except (Exception, SystemExit) as error:
        if report is None:
            raise
        report.end(error=str(error) if isinstance(error, NorthbridgeError) else describe_error(error))
    if report:
        report.end(**facts)


def _with_trainer(namespace: Namespace, name: str, cards: int) -> dict[str, object]:
    lightning = import_module(namespace.name)

    class Line(lightning.LightningModule):  # type: ignore[misc, name-defined]  # of any namespace
        def __init__(self) -> None:
            super().__init__()
            self.net = _make_model()
            self.losses: list[Tensor] = []

        def training_step(self, batch: list[Tensor]) -> Tensor:
            loss = _loss(self.net, batch)
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return _make_optimizer(self.net)

        def on_train_end(self) -> None:
            self.weights = self.all_gather(self.net.weight.detach())

    trainer = lightning.Trainer(
        accelerator=name,
        devices=cards,
        max_epochs=1,
        plugins=[one_machine(namespace)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model, start = Line(), time.monotonic()
    trainer.fit(model, _make_batches(cards))
    return _facts(trainer.strategy.root_device, model.losses, time.monotonic() - start, model.weights, cards)


def _with_fabric(namespace: Namespace, name: str, cards: int) -> dict[str, object]:
    fabric = import_module(namespace.name).Fabric(accelerator=name, devices=cards, plugins=[one_machine(namespace)])
    start = time.monotonic()
    fabric.launch()
    net = _make_model()
    model, optimizer = fabric.setup(net, _make_optimizer(net))
    losses = []
    for batch in fabric.setup_dataloaders(_make_batches(cards)):
        optimizer.zero_grad()
        loss = _loss(model, batch)
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    weights = fabric.all_gather(net.weight.detach())
    return _facts(fabric.device, losses, time.monotonic() - start, weights, cards)


def _make_model() -> nn.Linear:
    model = nn.Linear(4, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def _make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.2)


def _make_batches(cards: int) -> Iterable[list[Tensor]]:
    # Each rank gets different samples, so that weights are equal only if gradients are reduced.
    inputs = torch.rand(_STEPS * 8 * cards, 4, generator=torch.Generator().manual_seed(0)) * 2 - 1
    samples = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True) + 1)
    return torch.utils.data.DataLoader(samples, batch_size=8)


def _loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    inputs, targets = batch
    return nn.functional.mse_loss(model(inputs), targets)


def _facts(
    device: torch.device, losses: list[Tensor], seconds: float, weights: Tensor, cards: int
) -> dict[str, object]:
    return {
        "device": str(device),
        "first_loss": losses[0].item(),
        "last_loss": losses[-1].item(),
        "seconds": seconds,
        "equal": cards == 1 or all(bool((each == weights[0]).all()) for each in weights),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
