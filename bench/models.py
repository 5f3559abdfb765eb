"""The models that are trained, as a user would write them, and what they are trained on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

Batch = tuple[Tensor, Tensor]
_WORDS = 1000


class ConvNet(nn.Sequential):
    """Two convolutions and two linear layers, for pictures of 28×28."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )


class Transformer(nn.Module):
    """A small language model: four layers of width 256."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(_WORDS, 256)
        layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, _WORDS)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.head(self.encoder(self.embed(words)))
        return scores.transpose(1, 2)  # as cross_entropy wants them


class OneParameter(nn.Module):
    """As little work as a model can be, so that what is around it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, numbers: Tensor) -> Tensor:
        return self.weight * numbers


class Learner(LightningModule):
    """Train one of the models."""

    def __init__(self, net: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.net = net
        self.loss = loss
        self.sync_dist = False
        self.log_seconds: list[float] = []

    def training_step(self, batch: Batch) -> Tensor:
        inputs, targets = batch
        loss = self.loss(self.net(inputs), targets)
        start = time.perf_counter()
        self.log("loss", loss, sync_dist=self.sync_dist)
        self.log_seconds.append(time.perf_counter() - start)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


@dataclass(frozen=True)
class Repeated(Dataset[Batch]):
    """One batch, again and again: making a batch is the same work on every device, and would blur the difference."""

    batch: Batch
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Batch:
        return self.batch


@dataclass(frozen=True)
class Task:
    """A model, its loss, and one batch."""

    build: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    draw: Callable[[], Batch]

    def learner(self) -> Learner:
        """Return a new learner, with the same weights in every process."""
        torch.manual_seed(1)
        return Learner(self.build(), self.loss)

    def loader(self, steps: int) -> DataLoader[Batch]:
        """Return so many batches for each of the ranks."""
        torch.manual_seed(2)
        return DataLoader(Repeated(self.draw(), steps), batch_size=None)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def _difference(result: Tensor, target: Tensor) -> Tensor:
    return (result - target).sum()


TASKS = {
    "mlp": Task(_mlp, cross_entropy, lambda: (torch.randn(128, 784), torch.randint(10, (128,)))),
    "convnet": Task(ConvNet, cross_entropy, lambda: (torch.randn(64, 1, 28, 28), torch.randint(10, (64,)))),
    "transformer": Task(
        Transformer, cross_entropy, lambda: (torch.randint(_WORDS, (8, 128)), torch.randint(_WORDS, (8, 128)))
    ),
    "one-parameter": Task(OneParameter, _difference, lambda: (torch.ones(1), torch.ones(1))),
}
