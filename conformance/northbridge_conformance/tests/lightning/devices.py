"""The meanings of ``devices=``, and errors instead of a silent run on the CPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.hosts import _Classifier, build, combine, fabric, is_trainer, module_of, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, reference, write
from northbridge_conformance.suite import (
    FABRICS,
    TRAINERS,
    Differences,
    NamespaceSuite,
    Runs,
    in_each,
    require,
    require_devices,
    shows,
)
from northbridge_conformance.tests.collective.ranks import error_of
from northbridge_conformance.tests.device.one_device import rejected_where_denied
from northbridge_conformance.tests.lightning.training import train

FORMS: dict[str, Any] = {
    "1": 1,
    "2": 2,
    "'auto'": "auto",
    "-1": -1,
    "'2'": "2",
    "[0, 1]": [0, 1],
    "'0,1'": "0,1",
    "[1]": [1],
}
"""The forms, as a user writes them."""


SECOND = "[1]"


def is_held_by_one_fabric(backend: str, namespace: str) -> bool:
    """Return True if a Fabric, which acquires its device when it asks for it, leaves its process no second one."""
    device = northbridge.get(backend).device
    return not is_trainer(namespace) and device.root(0) == device.root(1)


def request_devices(scenario: Scenario, folder: Path) -> None:
    """Build a Trainer or a Fabric for each of :data:`FORMS`; report the devices of its ranks, or the error."""
    trains = is_trainer(scenario.namespace)
    found: dict[str, Any] = {}
    for word, devices in FORMS.items():
        try:
            host = trainer(scenario, folder, devices=devices) if trains else fabric(scenario, devices=devices)
            ranks = getattr(host.strategy, "parallel_devices", None) or [host.strategy.root_device]
        except (northbridge.NorthbridgeError, RuntimeError) as error:
            found[word] = {"error": f"{type(error).__name__}: {error}"}
            continue
        found[word] = [str(device) for device in ranks]
    write(folder, "request_devices", 0, found)


class DeviceChoice(NamespaceSuite):
    """Each form of ``devices=`` that Lightning accepts means the same on the chip as elsewhere.

    On a machine with one device, a form that asks for two raises :class:`northbridge.DevicesError`; C3 needs two.
    """

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    advice = (
        "Look at the Device's count() and root(), and at the bridge's detect(), which says the same before loading."
    )

    @pytest.mark.parametrize("form", FORMS)
    def test_devices_argument_selects_devices(self, backend: str, namespace: str, chip: RunResult, form: str) -> None:
        everything = range(northbridge.available()[backend])
        indices = {"1": [0], "[1]": [1], "'auto'": everything, "-1": everything}.get(form, [0, 1])

        found = chip.only("request_devices")[form]

        device = northbridge.get(backend).device
        if max(indices) >= len(everything):
            assert error_of(found).startswith("DevicesError: ")
            return
        if form == SECOND and is_held_by_one_fabric(backend, namespace):  # the first, by earlier forms
            assert error_of(found)
            return
        alone = len(indices) == 1  # a rank's device has this process's index, lists of devices have the requested ones
        assert found == [str(device.root(index)) if alone else f"{device.type}:{index}" for index in indices]


class SecondDevice(NamespaceSuite):
    """``devices=[1]`` trains on the second device."""

    runs: Runs = in_each(TRAINERS[0], FABRICS[0])
    least_devices: int = 2
    advice = (
        "Look at the Device's select() and root(), and at the bridge's prepare_rank(), for devices after the first."
    )

    @pytest.fixture
    def chip(self, backend: str, namespace: str, environ: dict[str, str]) -> RunResult:
        require(namespace)
        return run(Scenario(backend, namespace, (reference(train),), (1,), models=("mlp",)), environ)

    def test_weights_match_a_cpu_run(self, differences: Differences) -> None:
        assert differences("train mlp", "weights") == []

    def test_memory_is_allocated_on_that_device_only(self, device: northbridge.Device, chip: RunResult) -> None:
        root = str(device.root(1))

        found = chip.only("train mlp")

        assert found["root device"] == root
        assert found["in use"] in (None, [root])

    def test_root_device_is_the_current_device(self, device: northbridge.Device, chip: RunResult) -> None:
        assert chip.only("train mlp")["current device"] == str(device.root(1))


class LastDevices(NamespaceSuite):
    """``devices=[2, 3]`` trains on those two, whose indices differ from the ranks."""

    runs: Runs = in_each(TRAINERS[0], FABRICS[0], devices=(2,))
    advice = (
        "Look at the Device's select() and root(), and at the bridge's prepare_rank(): they are given the device's"
        " number, which is not the rank's, LOCAL_RANK, in every run."
    )

    @pytest.fixture
    def chip(self, backend: str, namespace: str, environ: dict[str, str]) -> RunResult:
        require(namespace)
        require_devices(backend, 4)
        return run(Scenario(backend, namespace, (reference(train),), (2, 3), models=("mlp",)), environ)

    def test_each_rank_trains_on_its_own_device(self, device: northbridge.Device, chip: RunResult) -> None:
        roots = [str(device.root(index)) for index in (2, 3)]

        assert chip.each("train mlp", "root device") == roots
        assert chip.each("train mlp", "in use") in ([None, None], [[root] for root in roots])

    def test_root_device_is_the_current_device(self, chip: RunResult) -> None:
        assert chip.each("train mlp", "current device") == chip.each("train mlp", "root device")


def try_unsupported(scenario: Scenario, folder: Path) -> None:
    """Try each case; a run that finishes is reported as "no error"."""
    strategies = module_of(scenario, "strategies")
    cpu = torch.device("cpu")
    train = partial(_train, scenario, folder)
    attempts: dict[str, Callable[[], None]] = {
        "single device on the CPU": lambda: train(strategy=strategies.SingleDeviceStrategy(device=cpu)),
        "DDP on the CPU": lambda: train(strategy=strategies.DDPStrategy(parallel_devices=[cpu])),
        "tensor left on the CPU": lambda: train(model=_Forgetful(build("mlp"))),
        "group of gloo": lambda: _train_in_group(scenario, folder, "gloo"),
        "group of fake": lambda: _train_in_group(scenario, folder, "fake"),
    }
    for name, attempt in attempts.items():
        write(folder, f"try_unsupported {name}", 0, _error_of(attempt))


def _train_in_group(scenario: Scenario, folder: Path, backend: str) -> None:
    if backend == "fake":
        importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers the backend
    where = (folder / f"{backend}.store").as_uri()
    torch.distributed.init_process_group(backend, init_method=where, rank=0, world_size=1)
    try:
        _train(scenario, folder, strategy="ddp")
    finally:
        torch.distributed.destroy_process_group()


def _error_of(attempt: Callable[[], None]) -> dict[str, str]:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001  # which one it was is what the test asks
        return {"type": type(error).__name__, "message": str(error)}
    return {"type": "", "message": "no error"}


class _Forgetful(torch.nn.Module):
    """Adds a tensor that does not move with the model."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.offset = [torch.zeros(5)]

    def forward(self, pictures: Tensor) -> Tensor:
        result: Tensor = self.inner(pictures) + self.offset[0]
        return result


def _train(scenario: Scenario, folder: Path, model: torch.nn.Module | None = None, strategy: Any = "auto") -> None:
    net = model if model is not None else build("mlp")
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder, strategy=strategy, max_epochs=1)
        host.fit(combine(scenario.namespace, _Classifier)(net, folder, "try_unsupported fit"), loader())
    else:
        host = fabric(scenario, strategy=strategy)
        host.launch()
        module = host.setup_module(net)
        for pictures, _ in host.setup_dataloaders(loader()):
            module(pictures)


class Refusals(NamespaceSuite):
    """A run that would leave the chip is refused."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    advice = (
        "A tensor that is not on the chip must be an error of the vendor's kernels, and never be computed on the CPU;"
        ' or claim device_checks=northbridge.no("the reason").'
    )

    def test_single_device_strategy_on_the_cpu_raises(self, backend: str, chip: RunResult) -> None:
        found = chip.only("try_unsupported single device on the CPU")

        assert found["type"] == "WrongDeviceError"
        assert f"accelerator={backend!r}, but the strategy's root device is 'cpu'" in found["message"]

    def test_ddp_strategy_on_the_cpu_raises(self, backend: str, chip: RunResult) -> None:
        found = chip.only("try_unsupported DDP on the CPU")

        assert found["type"] in ("MisconfigurationException", "ValueError")  # Lightning's own words
        assert f"accelerator set to {backend}" in found["message"]

    @shows("device_checks")
    def test_tensor_left_on_the_cpu_raises(self, backend: str, chip: RunResult) -> None:
        found = chip.only("try_unsupported tensor left on the CPU")

        with rejected_where_denied(backend, "device_checks", "a run with such a tensor warns"):
            assert found["type"] == "RuntimeError"
            assert northbridge.get(backend).device.type in found["message"]

    @pytest.mark.parametrize("group", ["gloo", "fake"])
    def test_process_group_of_another_library_raises(self, backend: str, chip: RunResult, group: str) -> None:
        found = chip.only(f"try_unsupported group of {group}")

        own = northbridge.get(backend)
        if own.collective is None:
            assert found["type"] == "UnsupportedError"
            assert "HostCollective" in found["message"]
            return
        assert found["type"] == "CollectiveError"
        assert f"{own.device.type!r} needs {own.collective.name!r}" in found["message"]
        assert group in found["message"]
