"""The devices of Trainers in a Ray worker, with a stand-in for what Ray tells of it; test_ray.py has Ray itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch.strategies import DDPStrategy
from tests.core.lightning.conftest import Build, refusal

from northbridge.errors import DevicesError, WrongDeviceError
from northbridge.launch import ray_worker
from northbridge.lightning.connector import devices
from northbridge.lightning.namespaces import NAMESPACES, Namespace

Worker = Callable[..., None]


class RaysStrategy(DDPStrategy):
    """A strategy as Ray's are: it says that the root device is the CPU."""

    __module__ = "ray.train.lightning"

    @property
    def root_device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def local_rank(self) -> int:
        return 1


class UsersStrategy(RaysStrategy):
    """A user's, with a root device of their own."""

    __module__ = "users"

    @property
    def root_device(self) -> torch.device:
        return torch.device("meta")


@pytest.fixture
def namespace() -> Namespace:
    return NAMESPACES["lightning.pytorch"]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    def worker(own: list[int], *, workers: int = 2, ranks: int = 3) -> None:
        numbers = SimpleNamespace(get_local_world_size=lambda: workers, get_world_size=lambda: ranks)
        context = SimpleNamespace(worker=SimpleNamespace(mode=1))
        monkeypatch.setitem(
            sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True, get_runtime_context=lambda: context)
        )
        monkeypatch.setitem(sys.modules, "ray.train", SimpleNamespace(get_context=lambda: numbers))
        monkeypatch.setattr(devices, "devices_of_worker", lambda *_, **__: own)

    return worker


@pytest.mark.parametrize("devices", ["auto", 1, 2, [4]])
def test_rays_strategy_has_the_device_of_its_worker(build: Build, worker: Worker, devices: Any) -> None:
    worker([4])

    connector = build(accelerator="cpu_sim", devices=devices, strategy=RaysStrategy())

    assert str(connector.strategy.root_device) == "cpu_sim:4"
    assert (connector.strategy.num_processes, connector.strategy.num_nodes) == (2, 2)


def test_strategy_can_train_again(build: Build, worker: Worker) -> None:
    worker([4])
    strategy = build(accelerator="cpu_sim", devices="auto", strategy=RaysStrategy()).strategy

    assert build(devices="auto", strategy=strategy).strategy is strategy


def test_root_device_of_a_users_class_is_kept(build: Build, worker: Worker) -> None:
    worker([4])

    assert str(build(accelerator="cpu_sim", devices="auto", strategy=UsersStrategy()).strategy.root_device) == "meta"


@pytest.mark.parametrize("devices", [3, [0], "0,1"])
def test_rays_strategy_refuses_other_devices(build: Build, worker: Worker, devices: Any) -> None:
    worker([4])

    said = refusal(DevicesError, build, accelerator="cpu_sim", devices=devices, strategy=RaysStrategy())

    assert said == f"devices={devices!r}: Ray gave device 4. Fix: devices='auto'"
    listed = RaysStrategy(parallel_devices=[torch.device("cpu_sim", 0)])
    with pytest.raises(DevicesError, match=r"^parallel_devices=\['cpu_sim:0'\]: Ray gave device 4\. Fix"):
        build(accelerator="cpu_sim", devices="auto", strategy=listed)


def test_worker_with_two_devices_is_told_that_one_would_idle(build: Build, worker: Worker) -> None:
    worker([4, 5])

    said = refusal(DevicesError, build, accelerator="cpu_sim", devices="auto", strategy=RaysStrategy())

    assert said == "Ray gave this worker 2 devices for one rank. Fix: ask for 1"


def test_selected_device_of_another_worker_is_an_error(
    build: Build, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker([4])
    strategy = build(accelerator="cpu_sim", devices="auto", strategy=RaysStrategy()).strategy
    monkeypatch.setattr(type(strategy.backend.device), "select", lambda *_: torch.cpu_sim.set_device(0))  # type: ignore[attr-defined]

    said = refusal(WrongDeviceError, strategy.acquire_device)

    assert said == "'cpu_sim' selected device 0, but this Ray worker holds 4. Fix: its select()"


@pytest.mark.parametrize(("devices", "found"), [("auto", [2, 3]), (-1, [2, 3]), (1, [2]), (2, [2, 3]), ([3], [3])])
def test_trial_has_the_devices_that_ray_counts(build: Build, worker: Worker, devices: Any, found: list[int]) -> None:
    worker([2, 3])

    strategy = build(accelerator="cpu_sim", devices=devices).strategy
    got = getattr(strategy, "parallel_devices", None) or [strategy.root_device]

    assert [each.index for each in got] == found


@pytest.mark.parametrize("devices", [3, [1]])
def test_trial_refuses_devices_of_others(build: Build, worker: Worker, devices: Any) -> None:
    worker([2, 3])

    said = refusal(DevicesError, build, accelerator="cpu_sim", devices=devices)

    assert said == f"devices={devices!r}: Ray gave device 2, 3. Fix: devices='auto'"


def test_worker_without_counted_devices_is_left_alone(build: Build, worker: Worker) -> None:
    worker([])
    assert ray_worker.runtime_context() is not None

    assert str(build(accelerator="cpu_sim", devices=[5]).strategy.root_device) == "cpu_sim:5"
