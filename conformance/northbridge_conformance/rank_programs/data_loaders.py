"""Train on data in each form that Lightning accepts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from northbridge.lightning.namespaces import Stock
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.hosts import _Classifier, classifier, combine, trainer
from northbridge_conformance.runs.models import pictures
from northbridge_conformance.runs.scenario import Scenario

WAYS = (
    "pinned",
    "by workers",
    "pinned by workers",
    "iterable",
    "in batches of a sampler",
    "min_size",
    "max_size",
    "max_size_cycle",
    "a data module",
)


class Stream(IterableDataset[Any]):
    """An iterable dataset with the same number of pictures on each rank."""

    def __init__(self, rank: int, ranks: int) -> None:
        self._rank, self._ranks = rank, ranks

    def __iter__(self) -> Iterator[Any]:
        images, labels = pictures(32).tensors
        yield from list(zip(images, labels, strict=True))[self._rank :: self._ranks]


class Uneven(torch.utils.data.Sampler[list[int]]):
    """Batches of different sizes; each rank gets the same number of them."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from ([0, 1, 2], [3, 4, 5, 6, 7, 8, 9], [10, 11])

    def __len__(self) -> int:
        return 3


class InWorkers(Dataset[Any]):
    """A dataset whose samples tell if a worker process read them."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        images, labels = pictures(16).tensors
        return images[index], labels[index], int(get_worker_info() is not None)


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the weights and the properties of the batches."""
    found: dict[str, Any] = {}
    rank = 0
    for way in WAYS:
        arguments = {"use_distributed_sampler": False} if way == "in batches of a sampler" else {}
        host = trainer(scenario, folder, max_epochs=1, **arguments)
        rank = host.global_rank
        module = classifier(scenario.namespace, "mlp", folder, "data_loaders fit", _Loaded)
        data = build_data(scenario.namespace, way, host)
        with _prepared_lock:
            _prepared.clear()
        host.fit(module, data)
        found[way] = {"weights": fingerprint(module.state_dict()), **module.noted, "prepared": list(_prepared)}
    write(folder, "data_loaders", rank, found)


_prepared: list[str] = []
_prepared_lock = threading.Lock()


def build_data(namespace: str, way: str, host: Any) -> Any:
    """Return the data of one of :data:`WAYS` for a rank of a Trainer or Fabric; a Fabric has no data module."""
    if way == "pinned":
        return DataLoader(pictures(), batch_size=8, pin_memory=True)
    if way == "by workers":
        return DataLoader(InWorkers(), batch_size=4, num_workers=1)
    if way == "pinned by workers":
        return DataLoader(InWorkers(), batch_size=2, num_workers=1, pin_memory=True)
    if way == "iterable":
        return DataLoader(Stream(host.global_rank, host.world_size), batch_size=4)
    if way == "in batches of a sampler":
        return DataLoader(pictures(), batch_sampler=Uneven())
    if way == "a data module":
        return combine(namespace, _Pictures, "LightningDataModule")()
    combined: Any = import_module(f"{namespace}.utilities").CombinedLoader
    loaders = {"first": DataLoader(pictures(), batch_size=8), "second": DataLoader(pictures(20), batch_size=8)}
    return combined(loaders, mode=way)


class _Pictures(Stock):  # type: ignore[misc]  # of Lightning's data module
    prepare_data_per_node = True

    def prepare_data(self) -> None:
        _prepared.append("here")

    def train_dataloader(self) -> Any:
        return DataLoader(pictures(), batch_size=8)


class _Loaded(_Classifier):
    def __init__(self, net: torch.nn.Module, folder: Path, topic: str) -> None:
        super().__init__(net, folder, topic)
        self.noted: dict[str, Any] = {"batches": 0, "pinned": True, "in workers": True}

    def on_before_batch_transfer(self, batch: Any, dataloader_index: int) -> Any:
        first = batch["first"] if isinstance(batch, dict) else batch
        if first is not None:
            self.noted["pinned"] &= bool(first[0].is_pinned())
            self.noted["in workers"] &= len(first) > 2 and bool(first[2].all())
        return batch

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        parts = [each for each in (batch.values() if isinstance(batch, dict) else [batch]) if each is not None]
        self.noted["batches"] += 1
        return torch.stack([cross_entropy(self.net(part[0]), part[1]) for part in parts]).sum()
