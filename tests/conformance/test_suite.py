"""Skips of the suite's tests on machines that lack something, its classes and modules, and runs that begin ahead."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from threading import Event, get_ident
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.core.conftest import Install

import northbridge
import northbridge_conformance
from northbridge_conformance import ahead as room, run as runs, suite
from northbridge_conformance.ahead import RunsAhead
from northbridge_conformance.levels import C1, LEVELS
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.processes import environ_of_runs
from northbridge_conformance.runs.scenario import RunError, Scenario
from northbridge_conformance.suite import BASICS, NamespaceSuite, Suite, cpu_run, require_devices

ASKS = """
import pytest
from northbridge_conformance.suite import require_devices

try:
    require_devices("load_needs_software", 1)
except pytest.skip.Exception as skipped:
    print(skipped)
"""


def test_test_is_skipped_without_the_vendors_software(install: Install) -> None:
    """In a process of its own: this one may have loaded another chip."""
    assert install("load_needs_software").python(ASKS).stdout == (
        "backend 'load_needs_software' (northbridge-load-needs-software 1.2.3): its software"
        " 'torch_load_needs_software' is not installed. Fix: install the vendor's package\n"
    )


def test_a_test_is_skipped_where_fewer_devices_are_here(install_here: Install) -> None:
    """Software that is broken is not a reason to skip."""
    install_here("import_raises")
    with pytest.raises(pytest.skip.Exception) as skipped:
        require_devices("cpu_sim", 100)

    assert str(skipped.value) == "it needs 100 devices of cpu_sim, and this machine has 8"
    with pytest.raises(northbridge.PluginImportError, match=r"libacme\.so\.3 wants GLIBC_2\.99"):
        require_devices("import_raises", 1)


def test_every_class_of_a_level_above_c0_asks_for_a_device_first() -> None:
    class Adopted(C1):
        backend = "acme"

    asks = [suite for name, suite in vars(Adopted).items() if name.startswith("Test")]

    assert len(asks) == len(C1.level.classes)
    assert all(hasattr(suite, "machine") for suite in asks)


def test_the_advice_of_every_class_is_a_sentence() -> None:
    texts = [suite.advice for level in LEVELS.values() for suite in level.classes]

    assert [text for text in texts if not re.fullmatch(r"(?:[A-Z]|torch).*\.", text)] == []  # torch has no capital


HERE = f"{northbridge_conformance.__name__}."
MODULES = [
    each.name for each in pkgutil.walk_packages(northbridge_conformance.__path__, HERE) if ".questions" not in each.name
]


def has_tests(name: str) -> bool:
    module = importlib.import_module(name)
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    return any(issubclass(each, Suite) and any(name.startswith("test") for name in vars(each)) for each in classes)


def test_a_failing_assertion_of_the_suite_shows_its_values() -> None:
    """Where the modules have tests, and nothing else is rewritten."""
    rooms = {name.removeprefix(HERE).partition(".")[0] for name in MODULES if has_tests(name)}

    assert {*rooms, "suite"} == set(northbridge_conformance.WITH_TESTS)


NAMESPACE = "lightning.fabric"


class _Adopted(NamespaceSuite):
    adopted_for = "cpu_sim"


def _tests(*fixtures: str, devices: int = 1) -> list[Any]:
    """Return a test of one run that asks for ``fixtures``."""
    params = {"namespace": NAMESPACE, "devices": devices}
    parent = SimpleNamespace(obj=_Adopted)
    item = SimpleNamespace(
        getparent=lambda _: parent, callspec=SimpleNamespace(params=params), fixturenames=list(fixtures)
    )
    return [item, item]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int, str]]:
    """The accelerator, devices and thread of each run, and the variable ``SELECTED`` in it."""
    found: list[tuple[str, int, int, str]] = []

    def run(scenario: Scenario, _environ: dict[str, str]) -> RunResult:
        found.append((scenario.accelerator, scenario.ranks, get_ident(), environ_of_runs().get("SELECTED", "")))
        return RunResult(Path(), {}, "")

    device = SimpleNamespace(count=lambda: 8, root=lambda index: f"chip:{index}")
    chip = SimpleNamespace(capabilities=SimpleNamespace(simulated=True), device=device)
    monkeypatch.setattr(northbridge, "get", lambda _: chip)
    monkeypatch.setattr(northbridge, "load", lambda _: chip)
    monkeypatch.setattr(suite, "_same_sources", lambda namespace: namespace)  # it imports Lightning
    monkeypatch.setattr(runs, "_run", run)
    monkeypatch.setattr(runs, "_results", {})
    return found


def test_a_run_on_the_cpu_begins_in_another_thread(ran: list[Any]) -> None:
    ahead = RunsAhead(_tests("cpu", "chip", devices=2))
    cpu_run(NAMESPACE, 2)
    ahead.end()

    assert [(accelerator, devices) for accelerator, devices, *_ in ran] == [("cpu", 2)]


def test_a_simulated_chips_run_begins_when_it_is_loaded(ran: list[Any]) -> None:
    ahead = RunsAhead(_tests("chip"))
    for _ in range(2):
        ahead.begin_on_the_chip()
    ahead.end()

    # Its checkpoints come from a run on the CPU.
    assert [accelerator for accelerator, *_ in ran] == ["cpu", "cpu_sim"]
    assert {thread for *_, thread, _ in ran}.isdisjoint({get_ident()})


def _make_real(chip: Any) -> None:
    chip.capabilities.simulated = False


def _give_one_card(chip: Any) -> None:
    chip.device.root = lambda _: "chip:0"


@pytest.mark.parametrize(
    ("fixture", "change"), [("namespace", lambda _: None), ("chip", _make_real), ("chip", _give_one_card)]
)
def test_another_run_begins_when_a_test_needs_it(ran: list[Any], fixture: str, change: Callable[[Any], None]) -> None:
    """One that no test reads, that of a real chip, and one on cards of one process each."""
    change(northbridge.get("chip"))
    ahead = RunsAhead(_tests(fixture))
    ahead.begin_on_the_chip()
    ahead.end()

    assert ran == []


def test_it_does_not_see_what_a_test_does_to_the_environment(ran: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    go, begin = Event(), room._try

    def wait(each: Any) -> None:
        go.wait(30)
        begin(each)

    monkeypatch.setattr(room, "_try", wait)
    monkeypatch.setenv("SELECTED", "before")
    ahead = RunsAhead(_tests("cpu"))
    monkeypatch.setenv("SELECTED", "card 3")
    go.set()
    ahead._pools[0].shutdown()

    assert [selected for *_, selected in ran] == ["before"]
    assert os.environ["SELECTED"] == "card 3"


def test_a_failed_run_fails_the_test_that_needs_it(ran: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fail = Mock(side_effect=RunError("rank 1 ended"))
    monkeypatch.setattr(runs, "_run", fail)
    RunsAhead(_tests("cpu"))._pools[0].shutdown()

    with pytest.raises(RunError, match="rank 1 ended"):
        cpu_run(NAMESPACE, 1, BASICS)
    assert fail.call_count == 1
