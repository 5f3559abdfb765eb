"""What a training, a save and a load leave in the memory of their process."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from typing import Any

from torch import Tensor

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.hosts import (
    _Classifier,
    bytes_on_chip,
    classifier,
    fabric,
    is_trainer,
    set_up,
    trainer,
)
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import FABRICS, TRAINERS, Runs, UsesSuite, one_and_two_devices, shows
from northbridge_conformance.tests.device.one_device import reject_without
from northbridge_conformance.tests.lightning.training import train_epoch


def release_all(scenario: Scenario, folder: Path) -> None:
    """Train, save and load with Python's cycle collector off; each rank reports the bytes that each left in tensors."""
    if is_trainer(scenario.namespace):
        _release_trainer(scenario, folder)
    else:
        fabric(scenario).launch(_release, folder)


def _release_trainer(scenario: Scenario, folder: Path) -> None:
    def fit(host: Any, module: Any, checkpoint: Path | None = None) -> None:
        host.fit_loop.max_epochs += 1
        host.fit(module, loader(), ckpt_path=checkpoint)

    # What a process keeps for good it has after a first training: of a smaller model, which may not be kept either.
    fit(trainer(scenario, folder, max_epochs=0), classifier(scenario.namespace, "mlp", folder, "release_all fit"))
    host = trainer(scenario, folder, max_epochs=0)
    module = classifier(scenario.namespace, "transformer", folder, "release_all fit", _Saving)
    with _Released(host.strategy) as released:
        start = released.mark()
        module.released = released
        fit(host, module)
        released.read("fit", since=start, on_host=False)  # the trained model is there
        module.released = None
        fit(host, module, folder / "release_all.ckpt")
        released.read("load")
    write(folder, "release_all", host.global_rank, released.left)


def _release(host: Any, folder: Path) -> None:
    def work(model: str) -> None:
        net, optimizer = set_up(host, model)
        train_epoch(host, net, optimizer, host.setup_dataloaders(loader()))
        released.mark()
        for name, call in (("save", host.save), ("load", host.load)):
            call(folder / "release_all.ckpt", {"net": net, "optimizer": optimizer})
            released.read(name)

    released = _Released(host.strategy)
    work("mlp")
    with released:
        start = released.mark()
        work("transformer")
        released.read("fit", since=start)
    write(folder, "release_all", host.global_rank, released.left)


class _Released:
    """Reads how many more bytes tensors of this process hold than at the reading before; no collector runs inside."""

    def __init__(self, strategy: Any) -> None:
        self._chip = strategy.backend, strategy.root_device
        self.left: dict[str, dict[str, int]] = {}

    def __enter__(self) -> _Released:
        gc.collect()
        self._was_on = gc.isenabled()
        gc.disable()
        self.mark()
        return self

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()

    def mark(self) -> Counter[str]:
        """Return the bytes of tensors by the type of their device, with which the next reading is compared."""
        held = Counter(allocated=bytes_on_chip(*self._chip))
        for each in gc.get_objects():
            if issubclass(type(each), Tensor):  # isinstance() would ask a proxy for its class
                held[each.device.type] += each.numel() * each.element_size()
        self._before = held
        return held

    def read(self, name: str, *, since: Counter[str] | None = None, on_host: bool = True) -> None:
        """Note as ``name`` what has grown, since the reading before unless another is given."""
        before = self._before if since is None else since
        self.left[name] = {kind: more for kind, more in (self.mark() - before).items() if on_host or kind != "cpu"}


class _Saving(_Classifier):
    """Saves a checkpoint while the model is on the chip."""

    released: _Released | None = None

    def on_train_end(self) -> None:
        super().on_train_end()
        if self.released is not None:
            self.released.mark()
            self.trainer.save_checkpoint(self.folder / "release_all.ckpt")
            self.released.read("save")


class ReleasedTensors(UsesSuite):
    """A fit, a save and a load keep no tensor, even if Python's cycle collector does not run."""

    runs: Runs = one_and_two_devices(*TRAINERS, *FABRICS)
    claims: tuple[str, ...] = ("fit", "checkpoint", "resume")
    advice = (
        "Look at what refers to a model, a batch or a checkpoint after its use: lists and caches of the vendor's"
        " software, or objects that refer to each other, which wait for Python's cycle collector while the chip fills."
    )

    LEFT_BYTES = 2**12
    """The allowed growth of the chip's memory: what the last collective holds, and less than the smallest model."""

    @pytest.mark.parametrize("work", ["fit", "save", "load"])
    def test_no_tensor_is_left(self, chip: RunResult, work: str) -> None:
        for left in chip.each("release_all", work):
            assert {kind: more for kind, more in left.items() if kind != "allocated"} == {}

    @pytest.mark.parametrize("work", ["fit", "save", "load"])
    @shows("memory_stats")
    def test_no_device_memory_is_left(self, backend: str, chip: RunResult, work: str) -> None:
        reject_without(backend, "memory_stats")
        for left in chip.each("release_all", work):
            assert left.get("allocated", 0) <= self.LEFT_BYTES
