"""A training of a thousand steps, with evaluations."""

from __future__ import annotations

from typing import Any

import pytest

from northbridge_conformance.rank_programs.endurance import EARLY, LATE
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import TRAINERS, NamespaceSuite, Runs, Steps, always, in_each, shows
from northbridge_conformance.tests.device.one_device import reject_without

CHIP_BYTES = 2**16
"""The allowed growth of the chip's memory from the early to the late step: 80 bytes for each step between."""

MORE_OPEN = 16
"""The allowed growth of the number of open files, and of threads, in that time."""

PROCESS_BYTES = 2**24
"""The allowed growth of the process, as allocators round and caches grow: 20 KiB for each step between."""


class Endurance(NamespaceSuite):
    """After a thousand steps the chip, the host and the process hold no more than after two hundred."""

    runs: Runs = in_each(TRAINERS[0], devices=(1, 2))
    steps: Steps = always("endurance")
    advice = (
        "Look at what the vendor's software keeps for each step: events, streams, graphs that Bridge.after_step()"
        " should submit, buffers of the communication library; and at Device.memory_allocated()."
    )

    def test_it_comes_to_its_end(self, chip: RunResult) -> None:
        assert set(chip.each("endurance", "steps")) == {LATE}

    @shows("memory_stats")
    def test_the_chips_memory_is_steady(self, backend: str, chip: RunResult) -> None:
        reject_without(backend, "memory_stats")
        for held in chip.each("endurance", "held"):
            assert _at(held, EARLY, "chip") > 0
            assert _at(held, LATE, "chip") - _at(held, EARLY, "chip") <= CHIP_BYTES

    def test_the_processs_memory_is_steady(self, chip: RunResult) -> None:
        for held in chip.each("endurance", "held"):
            assert _at(held, LATE, "process") - _at(held, EARLY, "process") <= PROCESS_BYTES

    @shows("memory_stats")
    def test_steps_leave_the_collector_no_chip_memory(self, backend: str, chip: RunResult) -> None:
        reject_without(backend, "memory_stats")
        # Python runs its collector by the number of objects, whatever they hold: the chip may be full before.
        for grown in chip.each("endurance", "in cycles"):
            assert grown <= CHIP_BYTES

    @pytest.mark.parametrize("opened", ["files", "threads"])
    def test_no_more_is_open(self, chip: RunResult, opened: str) -> None:
        for held in chip.each("endurance", "held"):
            assert _at(held, LATE, opened) - _at(held, EARLY, opened) <= MORE_OPEN


def _at(held: dict[str, Any], step: int, where: str) -> int:
    return int(held[str(step)][where])
