"""Data loading to the chip."""

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

from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Stock
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import differences_from_cpu, fingerprint
from northbridge_conformance.runs.hosts import _Classifier, classifier, combine, trainer
from northbridge_conformance.runs.models import pictures
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import TRAINERS, Runs, UsesSuite, one_and_two_devices, shows

PINNED = ("pinned", "pinned by workers")
"""The ways of which a chip refuses its part if it denies the claim ``pinned_memory``."""

UNPINNED = (
    "by workers",
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


def load_data(scenario: Scenario, folder: Path) -> None:
    """Report the weights and the properties of the batches."""
    found: dict[str, Any] = {}
    rank = 0
    for way in (*PINNED, *UNPINNED):
        arguments = {"use_distributed_sampler": False} if way == "in batches of a sampler" else {}
        host = trainer(scenario, folder, max_epochs=1, **arguments)
        rank = host.global_rank
        module = classifier(scenario.namespace, "mlp", folder, "load_data fit", _Loaded)
        data = build_data(scenario.namespace, way, host)
        with _prepared_lock:
            _prepared.clear()
        try:
            host.fit(module, data)
        except (RuntimeError, UnsupportedError) as error:
            if way not in PINNED:
                raise
            found[way] = {"pinned": False, "error": f"{type(error).__name__}: {error}"}
            continue
        found[way] = {"weights": fingerprint(module.state_dict()), **module.noted, "prepared": list(_prepared)}
    write(folder, "load_data", rank, found)


_prepared: list[str] = []
_prepared_lock = threading.Lock()


def build_data(namespace: str, way: str, host: Any, *, pins: bool = True) -> Any:
    """Return the data of one of these ways for a rank of a Trainer or Fabric; a Fabric has no data module."""
    if way == "pinned":
        return DataLoader(pictures(), batch_size=8, pin_memory=pins)
    if way == "by workers":
        return DataLoader(InWorkers(), batch_size=4, num_workers=1)
    if way == "pinned by workers":
        return DataLoader(InWorkers(), batch_size=2, num_workers=1, pin_memory=pins)
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


class DataLoading(UsesSuite):
    """Training is the same with pinned memory, workers, iterable and combined data, uneven batches and data modules."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "Look at copies from pinned memory that do not block, at those of odd sizes, and at a fork of the process for"
        " the loader's workers."
    )

    @pytest.mark.parametrize("way", UNPINNED)
    def test_weights_and_batches_match_a_cpu_run(self, backend: str, chip: RunResult, cpu: RunResult, way: str) -> None:
        assert differences_from_cpu(backend, _learnt(chip, way), _learnt(cpu, way)) == []

    @pytest.mark.parametrize("way", PINNED)
    @shows("pinned_memory")
    def test_training_on_pinned_batches_matches_a_cpu_run(
        self, backend: str, chip: RunResult, cpu: RunResult, way: str
    ) -> None:
        found = chip.each("load_data", way)

        reject_raised(found)
        assert differences_from_cpu(backend, _learnt(chip, way), _learnt(cpu, way)) == []
        reject_unpinned(found)

    @shows("pinned_memory")
    def test_batches_are_pinned_only_if_requested(self, chip: RunResult) -> None:
        for way in PINNED:
            reject_unpinned(chip.each("load_data", way))

        assert not any(found["pinned"] for found in chip.each("load_data", "iterable"))

    def test_batches_come_from_the_loader_workers(self, chip: RunResult) -> None:
        assert all(found["in workers"] for found in chip.each("load_data", "by workers"))

    def test_data_is_prepared_once_per_node(self, chip: RunResult, devices: int) -> None:
        prepared = [found["prepared"] for found in chip.each("load_data", "a data module")]

        assert prepared == [["here"], []][:devices]


def _learnt(outcome: RunResult, way: str) -> list[Any]:
    return [(found["weights"], found["batches"]) for found in outcome.each("load_data", way)]


def reject_raised(ranks: list[dict[str, Any]]) -> None:
    """Raise :class:`UnsupportedError` if an error was raised where a rank's batches were to be pinned."""
    for found in ranks:
        if "error" in found:
            raise UnsupportedError(f"no batch is pinned for this chip: {found['error']}", capability="pinned_memory")


def reject_unpinned(ranks: list[dict[str, Any]]) -> None:
    """Raise :class:`UnsupportedError` if a rank's batches were to be pinned, and were not."""
    if not all(found["pinned"] for found in ranks):
        raise UnsupportedError("torch pins no batch for this chip", capability="pinned_memory")
