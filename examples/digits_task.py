"""The task that the examples share: handwritten digits, and a small ConvNet that reads them."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset


def load_sets() -> tuple[Dataset[tuple[Tensor, ...]], ...]:
    """Return the sets for training, validation and test: 1797 real pictures of 8 by 8, which come with scikit-learn."""
    pixels, digits = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    labels = torch.tensor(digits)
    rest, test = train_test_split(range(len(labels)), test_size=360, stratify=labels, random_state=0)
    train, val = train_test_split(rest, test_size=200, stratify=labels[rest], random_state=0)
    return tuple(TensorDataset(images[part], labels[part]) for part in (train, val, test))


def build_convnet() -> nn.Sequential:
    """Return a network that gives one score for each of the ten digits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )
