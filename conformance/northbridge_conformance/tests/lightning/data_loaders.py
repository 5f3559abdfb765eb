"""Data loading to the chip."""

from __future__ import annotations

from typing import Any

import pytest

from northbridge.errors import UnsupportedError
from northbridge_conformance.rank_programs.data_loaders import WAYS
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.differences import differences_from_cpu
from northbridge_conformance.suite import TRAINERS, Runs, UsesSuite, one_and_two_devices, shows


class Loading(UsesSuite):
    """Training is the same with pinned memory, workers, iterable and combined data, uneven batches and data modules."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "Look at copies from pinned memory that do not block, at those of odd sizes, and at a fork of the process for"
        " the loader's workers."
    )

    @pytest.mark.parametrize("way", WAYS)
    def test_the_weights_are_those_of_a_cpu_run_on_the_same_batches(
        self, backend: str, chip: RunResult, cpu: RunResult, way: str
    ) -> None:
        def learnt(outcome: RunResult) -> list[Any]:
            return [(found["weights"], found["batches"]) for found in outcome.each("data_loaders", way)]

        assert differences_from_cpu(backend, learnt(chip), learnt(cpu)) == []

    @shows("pinned_memory")
    def test_batches_come_from_pinned_memory_if_asked(self, chip: RunResult) -> None:
        if not any(found["pinned"] for found in chip.each("data_loaders", "pinned")):
            raise UnsupportedError("torch pins no batch for this chip", capability="pinned_memory")
        for way in ("pinned", "pinned by workers"):
            assert all(found["pinned"] for found in chip.each("data_loaders", way))
        assert not any(found["pinned"] for found in chip.each("data_loaders", "iterable"))

    def test_batches_come_from_workers_where_the_loader_has_some(self, chip: RunResult) -> None:
        assert all(found["in workers"] for found in chip.each("data_loaders", "by workers"))

    def test_data_is_prepared_once_a_node(self, chip: RunResult, devices: int) -> None:
        prepared = [found["prepared"] for found in chip.each("data_loaders", "a data module")]

        assert prepared == [["here"], []][:devices]
