"""The models, data and optimizer that the suite trains with. All models but one train without random numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 5
SAMPLES = 51
"""An odd number of samples, so that no number of ranks but one divides it."""


class Head(nn.Linear):
    """The last layer of each model, which records the dtype and autocast inside the forward pass."""

    def __init__(self, width: int) -> None:
        super().__init__(width, CLASSES)
        self.seen: dict[str, Any] = {}

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # as torch calls it
        scores = super().forward(input)
        kind = scores.device.type
        # torch raises for a device type that autocast does not know.
        is_on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        self.seen = {"scores": str(scores.dtype), "autocast": is_on}
        return scores


class Mlp(nn.Sequential):
    """Two hidden layers."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), Head(32))


class ConvNet(nn.Sequential):
    """Convolution, batch norm and pooling."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3),
            nn.ReLU(),
            nn.Flatten(),
            Head(32),
        )


class Transformer(nn.Module):
    """Two layers of self-attention over the rows of the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.embed: nn.Linear = nn.Linear(8, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder: nn.TransformerEncoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head: Head = Head(16)

    def forward(self, pictures: Tensor) -> Tensor:
        result: Tensor = self.head(self.encoder(self.embed(pictures.squeeze(1))).mean(1))
        return result


class TiedWeights(nn.Module):
    """Two layers that share their weight, as a language model's input and output layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.first: nn.Linear = nn.Linear(64, 64)
        self.second: nn.Linear = nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.head: Head = Head(64)

    def forward(self, pictures: Tensor) -> Tensor:
        result: Tensor = self.head(self.second(self.first(pictures.flatten(1)).relu()).relu())
        return result


class TiedAndNormed(nn.Module):
    """A model that is hard to save: a weight with two names, and buffers of floats and of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm: nn.BatchNorm2d = nn.BatchNorm2d(1)
        self.tied: TiedWeights = TiedWeights()

    def forward(self, pictures: Tensor) -> Tensor:
        result: Tensor = self.tied(self.norm(pictures))
        return result


class Ensemble(nn.Module):
    """The first three models as one, for launches that start their ranks anew for each training."""

    def __init__(self) -> None:
        super().__init__()
        self.members: nn.ModuleList = nn.ModuleList([Mlp(), ConvNet(), Transformer()])

    def forward(self, pictures: Tensor) -> Tensor:
        return torch.stack([member(pictures) for member in self.members]).sum(0)


class Dropout(nn.Sequential):
    """The model that draws random numbers: a layer with dropout on its outputs."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 32), nn.Dropout(0.5), nn.ReLU(), Head(32))


class UnusedParameters(nn.Module):
    """A layer that the loss does not depend on: DDP trains it only with ``find_unused_parameters``."""

    def __init__(self) -> None:
        super().__init__()
        self.used: Head = Head(64)
        self.unused: nn.Linear = nn.Linear(64, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        result: Tensor = self.used(pictures.flatten(1))
        return result


MODELS: dict[str, type[nn.Module]] = {
    "mlp": Mlp,
    "convnet": ConvNet,
    "transformer": Transformer,
    "tied": TiedWeights,
    "tied and normed": TiedAndNormed,
    "ensemble": Ensemble,
    "unused": UnusedParameters,
    "dropout": Dropout,
}


def seen(net: nn.Module) -> dict[str, Any]:
    """Return the records of the heads of ``net`` from their last forward pass."""
    heads = [part.seen for part in net.modules() if isinstance(part, Head)]
    return {key: sorted({head[key] for head in heads}) for key in heads[0]}


def pictures(samples: int = SAMPLES) -> TensorDataset:
    """Return ``samples`` pictures of shape (1, 8, 8) with a class each, the same ones in every process."""
    generator = torch.Generator().manual_seed(7)
    images = torch.randn(samples, 1, 8, 8, generator=generator)
    labels = torch.randint(0, CLASSES, (samples,), generator=generator)
    return TensorDataset(images, labels)


def loader(samples: int = SAMPLES, *, shuffle: bool = True, workers: int = 0, batch: int = 8) -> DataLoader[Any]:
    """Return a loader of :func:`pictures` in batches of ``batch``."""
    return DataLoader(pictures(samples), batch_size=batch, shuffle=shuffle, num_workers=workers)


def adam(parameters: Iterable[Any], *, rate: float = 0.01, **options: Any) -> torch.optim.Adam:
    """Return the optimizer of ``parameters``.

    Its ``eps`` is as large as gradients are here. With torch's default, a gradient of 1e-9, which is 0 but for
    rounding, gives a step as long as a gradient of 1. Chips with different rounding would then end far apart, and
    doubled gradients would go unnoticed.
    """
    return torch.optim.Adam(parameters, lr=rate, eps=0.01, **options)
