"""Train for a thousand steps with regular evaluations, and record memory, open files and threads."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import _Classifier, classifier, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario

EARLY, LATE = 200, 1000
"""The steps after which memory is read; initial growth, such as caches, has ended by the first."""

CYCLIC = 160
"""From this step to the early one, within one epoch, Python's cycle collector is off."""

_BATCHES = 50
_EVALUATED = 5
"""The number of batches in an epoch, and in the evaluation at its end."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the bytes, open files and threads that each rank holds after the two steps."""
    host = trainer(scenario, folder, max_epochs=-1, max_steps=LATE, num_sanity_val_steps=0)
    module = classifier(scenario.namespace, "mlp", folder, "endurance fit", _Enduring)
    batches, evaluated = (loader(8 * each * host.world_size, shuffle=False) for each in (_BATCHES, _EVALUATED))
    host.fit(module, batches, evaluated)
    found = {"steps": host.global_step, "held": module.held, "in cycles": module.in_cycles}
    write(folder, "endurance", host.global_rank, found)


def bytes_on_chip(backend: Any, root: Any) -> int:
    """Return the bytes that tensors of this process hold on the device ``root``; 0 if the chip does not count them."""
    backend.device.synchronize()
    is_counted = not backend.present_capabilities().memory_stats.denied
    return int(backend.device.memory_allocated(root.index)) if is_counted else 0


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
