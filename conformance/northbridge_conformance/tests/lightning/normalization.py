"""Batch norm over the batches of all ranks."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.differences import tolerance
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Runs, in_each

_DIFFERENT = 1e-3
"""The least distance of weights and statistics, of a size of 1, from those of other batches."""


def _distance(backend: str) -> float:
    """Return the tolerance against one process: sums have another order, and a real chip also rounds differently."""
    return 1e-6 if northbridge.get(backend).capabilities.exact else tolerance(backend, 1e-5)


class SyncBatchNormTests(NamespaceSuite):
    """Two ranks train as one process with the whole batch does, and the model keeps its layers."""

    runs: Runs = in_each(*TRAINERS, devices=(2,))
    claims: tuple[str, ...] = ("sync_batchnorm",)
    advice = "Northbridge's layer takes sums and one all_gather: look at these, and at sums over several dimensions."

    @pytest.mark.parametrize("way", ["argument", "torch's layers"])
    def test_weights_and_statistics_are_those_of_the_whole_batch(self, backend: str, chip: RunResult, way: str) -> None:
        for found in chip.each("normalization", way):
            assert max(found["weights"], found["statistics"]) < _distance(backend)
            assert found["layer kept"]

    def test_without_it_each_rank_normalizes_by_its_own_batch(self, chip: RunResult) -> None:
        for found in chip.each("normalization", "nothing"):
            assert min(found["weights"], found["statistics"]) > _DIFFERENT


class UnevenSyncBatchNorm(NamespaceSuite):
    """Synchronized batch norm works with batches of different sizes on the ranks, also empty ones."""

    runs: Runs = in_each(*TRAINERS, *FABRICS, devices=(2,))
    claims: tuple[str, ...] = ("sync_batchnorm",)
    advice = "Northbridge's layer takes sums and one all_gather: look at these, and at sums over several dimensions."

    def test_outputs_and_statistics_are_of_the_whole_batch(self, chip: RunResult) -> None:
        for found in chip.each("normalization", "uneven"):
            assert max(found.values()) < 1e-5  # a weight's gradients are sums of hundreds


class FabricSyncBatchNorm(NamespaceSuite):
    """A model with torch's layers trains in a Fabric as one process with the whole batch does."""

    runs: Runs = in_each(*FABRICS, devices=(2,))
    claims: tuple[str, ...] = ("sync_batchnorm",)
    advice = "Northbridge's layer takes sums and one all_gather: look at these, and at sums over several dimensions."

    def test_weights_and_statistics_are_those_of_the_whole_batch(self, backend: str, chip: RunResult) -> None:
        for found in chip.each("normalization", "torch's layers"):
            assert max(found["weights"], found["statistics"]) < _distance(backend)
