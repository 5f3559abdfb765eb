"""A Transformer that learns to reverse sequences, of any size: what the demo and the measurement train."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass(frozen=True)
class Size:
    """The sizes of the model and its batches."""

    width: int
    layers: int
    batch: int
    length: int
    words: int = 64


SMALL = Size(width=64, layers=2, batch=32, length=8)
"""Learns within seconds."""

LARGE = Size(width=1024, layers=12, batch=16, length=1024, words=32768)
"""Keeps a GPU busy: 150 million weights in the layers, 16384 words a step."""


class Reverser(LightningModule):
    """Read a sequence, and say it backwards."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.embed = nn.Embedding(size.words, size.width)
        self.place = nn.Parameter(torch.randn(size.length, size.width) / size.width**0.5)
        layer = nn.TransformerEncoderLayer(
            size.width, max(1, size.width // 64), 4 * size.width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.answer = nn.Linear(size.width, size.words)
        self.losses: list[Tensor] = []

    def forward(self, words: Tensor) -> Tensor:
        """Return the scores of every word at every position: shape ``(batch, length, words)``."""
        scores: Tensor = self.answer(self.layers(self.embed(words) + self.place))
        return scores

    def training_step(self, batch: list[Tensor]) -> Tensor:
        """Return the loss of one batch."""
        (words,) = batch
        loss = nn.functional.cross_entropy(self(words).flatten(0, 1), words.flip(1).flatten())
        self.losses.append(loss.detach())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW over all weights."""
        return torch.optim.AdamW(self.parameters(), lr=3e-3 if self.size == SMALL else 1e-4)


def make_batches(size: Size, steps: int) -> DataLoader[tuple[Tensor, ...]]:
    """Return ``steps`` batches of random words, ``(batch, length)`` each, in pinned memory where CUDA is."""
    words = torch.randint(size.words, (steps * size.batch, size.length), generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(words), size.batch, pin_memory=torch.cuda.is_available())
