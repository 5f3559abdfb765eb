"""A training of a thousand steps, with evaluations."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.hosts import _Classifier, bytes_on_chip, classifier, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, reference, write
from northbridge_conformance.suite import TRAINERS, NamespaceSuite, Runs, Steps, always, in_each, shows
from northbridge_conformance.tests.device.one_device import reject_without

EARLY, LATE = 200, 1000
"""The steps after which memory is read; initial growth, such as caches, has ended by the first."""

CYCLIC = 160
"""From this step to the early one, within one epoch, Python's cycle collector is off."""

_BATCHES = 50
_EVALUATED = 5
"""The number of batches in an epoch, and in the evaluation at its end."""


def endure(scenario: Scenario, folder: Path) -> None:
    """Report the bytes, open files and threads that each rank holds after the two steps."""
    host = trainer(scenario, folder, max_epochs=-1, max_steps=LATE, num_sanity_val_steps=0)
    module = classifier(scenario.namespace, "mlp", folder, "endure fit", _Enduring)
    batches, evaluated = (loader(8 * each * host.world_size, shuffle=False) for each in (_BATCHES, _EVALUATED))
    host.fit(module, batches, evaluated)
    found = {"steps": host.global_step, "held": module.held, "in cycles": module.in_cycles}
    write(folder, "endure", host.global_rank, found)


def _held(backend: Any, root: Any) -> dict[str, int]:
    gc.collect()
    chip = bytes_on_chip(backend, root)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "process": pages * os.sysconf("SC_PAGE_SIZE"),
        "chip": chip,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


class _Enduring(_Classifier):
    def __init__(self, net: Any, folder: Path, topic: str) -> None:
        super().__init__(net, folder, topic)
        self.held: dict[int, dict[str, int]] = {}
        self.in_cycles: int = 0

    def validation_step(self, batch: Any, batch_index: int) -> None:
        self.net(batch[0])

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_index: int) -> None:
        chip = self.trainer.strategy.backend, self.trainer.strategy.root_device
        if self.global_step == CYCLIC:
            gc.collect()
            gc.disable()
            self.in_cycles = -bytes_on_chip(*chip)
        if self.global_step == EARLY:
            self.in_cycles += bytes_on_chip(*chip)
            gc.enable()
        if self.global_step in (EARLY, LATE):
            self.held[self.global_step] = _held(*chip)


CHIP_BYTES = 2**16
"""The allowed growth of the chip's memory from the early to the late step: 80 bytes for each step between."""

MORE_OPEN = 16
"""The allowed growth of the number of open files, and of threads, in that time."""

PROCESS_BYTES = 2**24
"""The allowed growth of the process, as allocators round and caches grow: 20 KiB for each step between."""


class Endurance(NamespaceSuite):
    """After a thousand steps the chip, the host and the process hold no more than after two hundred."""

    runs: Runs = in_each(TRAINERS[0], devices=(1, 2))
    steps: Steps = always(reference(endure))
    advice = (
        "Look at what the vendor's software keeps for each step: events, streams, graphs that Bridge.after_step()"
        " should submit, buffers of the communication library; and at Device.memory_allocated()."
    )

    def test_training_reaches_its_last_step(self, chip: RunResult) -> None:
        assert set(chip.each("endure", "steps")) == {LATE}

    @shows("memory_stats")
    def test_device_memory_is_steady(self, backend: str, chip: RunResult) -> None:
        reject_without(backend, "memory_stats")
        for held in chip.each("endure", "held"):
            assert _at(held, EARLY, "chip") > 0
            assert _at(held, LATE, "chip") - _at(held, EARLY, "chip") <= CHIP_BYTES

    def test_process_memory_is_steady(self, chip: RunResult) -> None:
        for held in chip.each("endure", "held"):
            assert _at(held, LATE, "process") - _at(held, EARLY, "process") <= PROCESS_BYTES

    @shows("memory_stats")
    def test_steps_leave_no_device_memory_in_reference_cycles(self, backend: str, chip: RunResult) -> None:
        reject_without(backend, "memory_stats")
        # Python runs its collector by the number of objects, whatever they hold: the chip may be full before.
        for grown in chip.each("endure", "in cycles"):
            assert grown <= CHIP_BYTES

    @pytest.mark.parametrize("opened", ["files", "threads"])
    def test_number_of_open_files_and_threads_is_steady(self, chip: RunResult, opened: str) -> None:
        for held in chip.each("endure", "held"):
            assert _at(held, LATE, opened) - _at(held, EARLY, opened) <= MORE_OPEN


def _at(held: dict[str, Any], step: int, where: str) -> int:
    return int(held[str(step)][where])
