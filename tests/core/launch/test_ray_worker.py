"""The devices of a Ray worker, with a stand-in for what Ray tells of it; test_ray.py has Ray itself."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.core.conftest import make_backend

import northbridge
from northbridge.launch import ray_worker


@pytest.fixture
def acme() -> northbridge.Backend:
    # Of this test run alone: another one on this machine may hold devices of the same name.
    return make_backend(f"acme{os.getpid()}")


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


@pytest.mark.parametrize(("visible", "index"), [(1, 0), (8, 5)], ids=["alone", "beside others"])
def test_given_device_has_its_index(tell: Any, acme: northbridge.Backend, visible: int, index: int) -> None:
    tell(["5"])

    assert ray_worker.devices_of_worker(acme, visible) == [index]


def test_counted_devices_are_the_first_free(tell: Any, acme: northbridge.Backend) -> None:
    """A worker keeps its devices until it ends."""
    tell(**{acme.name.upper(): 2.0})
    assert ray_worker.devices_of_worker(acme, 4) == ray_worker.devices_of_worker(acme, 4) == [0, 1]
    tell(**{acme.name: 1.0})  # another worker
    assert ray_worker.devices_of_worker(acme, 4) == [2]
    for each in ray_worker._sockets:
        each.close()
    tell(**{acme.name: 1.0})
    assert ray_worker.devices_of_worker(acme, 4) == [0]


def test_worker_without_devices_gets_as_many_as_it_needs(tell: Any, acme: northbridge.Backend) -> None:
    tell()

    assert ray_worker.devices_of_worker(acme, 4) == []
    assert ray_worker.devices_of_worker(acme, 4, at_least=1) == [0]


GIVEN = (
    "process {pid} holds device 3 of {name!r}, which Ray gave this worker. Fix: end it, or give each Ray node its own"
    " devices"
)
COUNTED = (
    "Ray workers (process {pid}) hold 1 of 1 devices of {name!r}, and this one needs 1. Fix: start Ray with"
    " resources={{{name!r}: 1}}"
)


@pytest.mark.parametrize(("ids", "counted", "told"), [(["3"], 0, GIVEN), (None, 1, COUNTED)], ids=["given", "counted"])
def test_device_of_another_names_the_holder(
    tell: Any, acme: northbridge.Backend, ids: list[str] | None, counted: int, told: str
) -> None:
    asked = {acme.name: float(counted)} if counted else {}
    tell(ids, **asked)
    ray_worker.devices_of_worker(acme, 1)
    tell(ids, **asked)

    with pytest.raises(northbridge.DeviceBusyError) as caught:
        ray_worker.devices_of_worker(acme, 1)
    assert str(caught.value) == told.format(pid=os.getpid(), name=acme.name)


def test_part_of_a_device_is_refused(tell: Any, acme: northbridge.Backend) -> None:
    tell(**{acme.name: 0.5})

    said = r"^Ray gave this worker 0\.5 devices\. Fix: ask for whole ones$"
    with pytest.raises(northbridge.DevicesError, match=said):
        ray_worker.devices_of_worker(acme, 4)


def test_driver_is_not_a_worker(tell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(mode=0)
    assert ray_worker.runtime_context() is None

    monkeypatch.delitem(sys.modules, "ray")
    assert ray_worker.runtime_context() is None
