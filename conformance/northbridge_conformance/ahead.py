"""Begin runs before a test needs them, on the cores that the tests of a suite leave idle that runs alone.

Runs on the CPU begin as soon as the tests are known. Those of a simulated chip begin after a test has loaded it, in
their order. Those of a real chip, or of one whose cards belong to one process each, begin when a test needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import northbridge
from northbridge.errors import NorthbridgeError
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.runs.processes import inherited
from northbridge_conformance.runs.scenario import RunError
from northbridge_conformance.suite import NamespaceSuite, chip_run, cpu_run, require_devices

_Begin = Callable[[], object]


class RunsAhead:
    """The runs that the tests ``items`` need, begun in the order of the tests."""

    def __init__(self, items: Iterable[pytest.Item]) -> None:
        on_the_cpu: dict[tuple[object, ...], _Begin] = {}
        on_the_chip: dict[tuple[object, ...], _Begin] = {}
        self._backend = ""
        for suite, namespace, devices, fixtures in _find(items):
            self._backend = suite.adopted_for
            key = namespace, devices, suite.steps[NAMESPACES[namespace].host, devices]
            if "cpu" in fixtures:
                on_the_cpu[key] = partial(cpu_run, namespace, devices, suite.steps)
            if "chip" in fixtures:
                on_the_chip[key] = partial(_run_on_the_chip, self._backend, namespace, devices, suite.steps)
        self._waiting = list(on_the_chip.values())
        self._pools = [_begin(on_the_cpu.values())]

    def begin_on_the_chip(self) -> None:
        """Begin the runs of a simulated chip that this process has loaded, the first time that this is called."""
        waiting, self._waiting = self._waiting, []
        if not waiting or not northbridge.get(self._backend).capabilities.simulated:
            return
        with suppress(NorthbridgeError):  # the tests say so
            device = northbridge.load(self._backend).device
            if device.count() < 2 or device.root(0) == device.root(1):
                return  # a card belongs to one process
            self._pools.append(_begin(waiting))

    def end(self) -> None:
        """Begin no more runs, and wait for those in progress."""
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)


def _find(items: Iterable[pytest.Item]) -> Iterator[tuple[type[NamespaceSuite], str, int, list[str]]]:
    """Return the class, the namespace, the number of devices and the fixtures of each test that reads a run."""
    for item in items:
        parent: Any = item.getparent(pytest.Class)
        test: Any = item
        if parent is not None and issubclass(parent.obj, NamespaceSuite) and "devices" in test.callspec.params:
            yield parent.obj, test.callspec.params["namespace"], test.callspec.params["devices"], test.fixturenames


def _run_on_the_chip(backend: str, namespace: str, devices: int, steps: Any) -> None:
    require_devices(backend, devices)
    chip_run(backend, namespace, devices, {}, steps)


def _begin(runs: Iterable[_Begin]) -> ThreadPoolExecutor:
    """Begin ``runs`` one after another, in this moment's environment."""
    pool = ThreadPoolExecutor(1, "runs-ahead", inherited.set, (dict(os.environ),))
    for each in runs:
        pool.submit(_try, each)
    return pool


def _try(begin: _Begin) -> None:
    with suppress(RunError, pytest.skip.Exception):  # raised again in each test that needs the run
        begin()
