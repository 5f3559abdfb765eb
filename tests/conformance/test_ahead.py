"""Runs that begin before a test needs them."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, get_ident
from types import SimpleNamespace
from typing import Any

import pytest

import northbridge
from northbridge_conformance import ahead as room, run as runs, suite
from northbridge_conformance.ahead import RunsAhead
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.processes import environ_of_runs
from northbridge_conformance.runs.scenario import RunError, Scenario
from northbridge_conformance.suite import BASICS, NamespaceSuite, cpu_run

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


def test_a_run_that_no_test_reads_does_not_begin(ran: list[Any]) -> None:
    ahead = RunsAhead(_tests("namespace"))
    ahead.begin_on_the_chip()
    ahead.end()

    assert ran == []


def test_a_simulated_chips_run_begins_when_it_is_loaded(ran: list[Any]) -> None:
    ahead = RunsAhead(_tests("chip"))
    for _ in range(2):
        ahead.begin_on_the_chip()
    ahead.end()

    # Its checkpoints come from a run on the CPU.
    assert [accelerator for accelerator, *_ in ran] == ["cpu", "cpu_sim"]
    assert {thread for *_, thread, _ in ran}.isdisjoint({get_ident()})


def test_a_real_chips_run_begins_when_a_test_needs_it(ran: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimpleNamespace(capabilities=SimpleNamespace(simulated=False))
    monkeypatch.setattr(northbridge, "get", lambda _: real)
    ahead = RunsAhead(_tests("chip"))
    ahead.begin_on_the_chip()
    ahead.end()

    assert ran == []


def test_a_run_on_cards_of_one_process_each_begins_when_needed(ran: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(northbridge.load("chip").device, "root", lambda _: "chip:0")
    ahead = RunsAhead(_tests("chip"))
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
    failed: list[None] = []

    def fail(*_: object) -> RunResult:
        failed.append(None)
        raise RunError("rank 1 ended")

    monkeypatch.setattr(runs, "_run", fail)
    RunsAhead(_tests("cpu"))._pools[0].shutdown()

    with pytest.raises(RunError, match="rank 1 ended"):
        cpu_run(NAMESPACE, 1, BASICS)
    assert len(failed) == 1
