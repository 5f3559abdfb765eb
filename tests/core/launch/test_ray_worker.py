"""The devices of a Ray worker, with a stand-in for what Ray tells of it; test_ray.py has Ray itself."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import northbridge
from northbridge.launch import ray_worker


class Device(northbridge.Device):
    type = "acme"


class Collective(northbridge.Collective):
    name = "accl"


class Bridge(northbridge.Bridge):
    def load(self) -> None:
        pass


@pytest.fixture
def acme() -> northbridge.Backend:
    # Of this test run alone: another one on this machine may hold devices of the same name.
    return northbridge.Backend(f"acme{os.getpid()}", Device(), Collective(), Bridge())


class Ray:
    """What Ray tells of a worker: the ids of devices, and its resources."""

    def __init__(self, ids: list[str], resources: dict[str, float], mode: int = 1) -> None:
        self.worker = SimpleNamespace(mode=mode)
        self.get_accelerator_ids = lambda: {"GPU": [], "HPU": ids}
        self.get_assigned_resources = lambda: {"CPU": 1.0, **resources}


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def tell(ids: list[str] | None = None, mode: int = 1, **resources: float) -> None:
        context = Ray(ids or [], resources, mode)
        ray = SimpleNamespace(is_initialized=lambda: True, get_runtime_context=lambda: context)
        monkeypatch.setitem(sys.modules, "ray", ray)
        monkeypatch.setattr(ray_worker, "_held", {})

    monkeypatch.setattr(ray_worker, "PATIENCE_SECONDS", 0.0)
    sockets: list[socket.socket] = []
    monkeypatch.setattr(ray_worker, "_sockets", sockets)
    yield tell
    for each in sockets:
        each.close()


class TestChoice:
    def test_given_device_that_alone_is_visible_is_the_first(self, tell: Any, acme: northbridge.Backend) -> None:
        tell(["5"])

        assert ray_worker.devices_of_worker(acme, 1) == [0]

    def test_given_device_beside_visible_others_has_its_index(self, tell: Any, acme: northbridge.Backend) -> None:
        tell(["5"])

        assert ray_worker.devices_of_worker(acme, 8) == [5]

    def test_counted_devices_are_the_first_free(self, tell: Any, acme: northbridge.Backend) -> None:
        tell(**{acme.name.upper(): 2.0})
        first = ray_worker.devices_of_worker(acme, 4)
        tell(**{acme.name: 1.0})  # another worker

        assert (first, ray_worker.devices_of_worker(acme, 4)) == ([0, 1], [2])

    def test_worker_keeps_its_devices(self, tell: Any, acme: northbridge.Backend) -> None:
        tell(**{acme.name: 1.0})

        assert ray_worker.devices_of_worker(acme, 4) == ray_worker.devices_of_worker(acme, 4) == [0]

    def test_worker_without_devices_gets_as_many_as_it_needs(self, tell: Any, acme: northbridge.Backend) -> None:
        tell()

        assert ray_worker.devices_of_worker(acme, 4) == []
        assert ray_worker.devices_of_worker(acme, 4, at_least=1) == [0]

    def test_devices_are_free_when_their_worker_has_ended(self, tell: Any, acme: northbridge.Backend) -> None:
        tell(**{acme.name: 1.0})
        ray_worker.devices_of_worker(acme, 1)
        for each in ray_worker._sockets:
            each.close()
        tell(**{acme.name: 1.0})

        assert ray_worker.devices_of_worker(acme, 1) == [0]


class TestErrors:
    def test_given_device_of_another_names_the_holder(self, tell: Any, acme: northbridge.Backend) -> None:
        tell(["3"])
        ray_worker.devices_of_worker(acme, 1)
        tell(["3"])

        with pytest.raises(northbridge.DeviceBusyError) as caught:
            ray_worker.devices_of_worker(acme, 1)
        assert str(caught.value) == (
            f"process {os.getpid()} holds device 3 of {acme.name!r}, which Ray gave this worker. Fix: end it, or give"
            " each Ray node its own devices"
        )

    def test_too_many_workers_are_told_of_the_resource(self, tell: Any, acme: northbridge.Backend) -> None:
        tell(**{acme.name: 1.0})
        ray_worker.devices_of_worker(acme, 1)
        tell(**{acme.name: 1.0})

        with pytest.raises(northbridge.DeviceBusyError) as caught:
            ray_worker.devices_of_worker(acme, 1)
        assert str(caught.value) == (
            f"Ray workers (process {os.getpid()}) hold 1 of 1 devices of {acme.name!r}, and this one needs 1. Fix:"
            f" start Ray with resources={{{acme.name!r}: 1}}"
        )

    def test_part_of_a_device_is_refused(self, tell: Any, acme: northbridge.Backend) -> None:
        tell(**{acme.name: 0.5})

        with pytest.raises(northbridge.DevicesError) as caught:
            ray_worker.devices_of_worker(acme, 4)
        assert str(caught.value) == "Ray gave this worker 0.5 devices. Fix: ask for whole ones"


def test_driver_is_not_a_worker(tell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(mode=0)
    assert ray_worker.runtime_context() is None

    monkeypatch.delitem(sys.modules, "ray")
    assert ray_worker.runtime_context() is None
