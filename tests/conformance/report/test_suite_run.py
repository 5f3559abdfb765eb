"""Facts in a report about a backend and a machine, and a report that is not whole, or not of this suite."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import Install

from northbridge import Capabilities
from northbridge_conformance.report import suite_run
from northbridge_conformance.report.report import BackendFacts, Report, TestResult
from northbridge_conformance.report.suite_run import Facts, find_facts, find_faults, make_report
from northbridge_conformance.runner.event_log import Ended, Planned
from northbridge_conformance.runner.supervisor import Course
from northbridge_conformance.verdict import Ending, Verdict

REAL = Facts(BackendFacts(name="cpu_sim", distribution="acme", version="1.0"), variables=("ACME_VISIBLE_DEVICES",))
SIMULATED = Facts(REAL.backend.model_copy(update={"simulated": True}))


def test_a_backend_is_asked_in_a_process_of_its_own() -> None:
    facts = find_facts("cpu_sim", {**os.environ, "NORTHBRIDGE_CPU_SIM_DEVICES": "3"})

    assert (facts.backend.distribution, facts.backend.device, facts.backend.collective) == (
        "northbridge-cpu-sim",
        "cpu_sim",
        "simccl",
    )
    assert (facts.backend.devices, facts.backend.simulated, facts.backend.problem) == (3, True, "")
    assert facts.capabilities.float32.answer == "yes"
    assert facts.versions["torch"].startswith("2.")


def test_driver_is_told_and_its_failure_costs_no_claim(install_here: Install) -> None:
    install_here("contracted")

    told = find_facts("contracted")
    raised = find_facts("contracted", {**os.environ, "CONTRACTED_MACHINE": "raises"})
    crashed = find_facts("contracted", {**os.environ, "CONTRACTED_MACHINE": "crashes"})

    assert told.describe_machine({}).described == {"driver": "7.1"}
    assert raised.described == {"describe_machine()": "raised OSError: no management library"}
    ended = "the process for software:describe_machine was killed by SIGSEGV"
    assert crashed.described == {"describe_machine()": ended}
    assert told.capabilities == raised.capabilities == crashed.capabilities
    assert told.capabilities != Capabilities()


def test_what_is_known_of_a_backend_that_is_broken(install_here: Install) -> None:
    """Its claims if the software cannot load, and its origin if the plugin cannot be imported."""
    install_here("load_needs_software", "import_exits")

    loading, importing = find_facts("load_needs_software"), find_facts("import_exits")

    assert (loading.backend.device, loading.backend.devices) == ("load_needs_software", 0)
    assert "its software 'torch_load_needs_software' is not installed" in loading.backend.problem
    assert (importing.backend.distribution, importing.backend.api) == ("northbridge-import-exits", 0)
    assert importing.capabilities == Capabilities()
    assert "PluginImportError" in importing.backend.problem


def test_environment_facts_are_those_that_affect_a_run() -> None:
    secrets = {"NORTHBRIDGE_ACME_TOKEN": "word", "TORCH_HUB_TOKEN": "word", "TORCHELASTIC_RUN_ID": "word"}
    environ = {"NORTHBRIDGE_SIMULATE": "acme", "ACME_VISIBLE_DEVICES": "0", "SECRET": "word", **secrets}
    machine = REAL.describe_machine(environ)

    assert machine.cores >= 1
    assert machine.memory > 2**20
    assert machine.environment == {
        "NORTHBRIDGE_SIMULATE": "acme",
        "ACME_VISIBLE_DEVICES": "0",
        **dict.fromkeys(secrets, "(not shown)"),
    }


STREAMS = "NORTHBRIDGE_CPU_SIM_STREAMS"


def test_a_simulated_chip_has_strict_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """They decide what its report is worth, so that it has their values, and what the user spares the chip."""
    spared = {STREAMS: "immediate"}

    assert SIMULATED.environ_of_suite({})[STREAMS] == "deferred"
    assert SIMULATED.environ_of_suite(spared)[STREAMS] == "immediate"
    assert REAL.environ_of_suite({}) == {}
    environ = {**spared, "NORTHBRIDGE_CPU_SIM_NAME": "word"}
    assert SIMULATED.describe_machine(environ).environment == {**environ, "NORTHBRIDGE_CPU_SIM_NAME": "(not shown)"}
    for allowed in ({}, {STREAMS: "deferred"}):
        assert SIMULATED.list_options_off(allowed) == ()
    assert SIMULATED.list_options_off(spared) == (f"{STREAMS}=immediate, and not deferred: unset it",)
    assert REAL.list_options_off(spared) == ()
    monkeypatch.setattr(suite_run, "strict_options", lambda _name: {})
    assert SIMULATED.list_options_off({}) == ("it has no strict options: give its Simulation some",)


PLAN = {
    f"C0/Plugin/test_{number}": Planned(
        id=f"C0/Plugin/test_{number}", chosen=True, level="C0", topic="A plugin.", title="", claims=(), advice=""
    )
    for number in range(3)
}


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    """A whole one, of a suite of three tests."""
    monkeypatch.setattr(suite_run, "plan", lambda *_: PLAN)
    backend = BackendFacts(name="acme", distribution="northbridge-acme", version="1.0")
    ended = {name: Ended(id=name, ending=Ending.WORKED, seconds=0.1) for name in PLAN}
    course = Course(dict(PLAN), ended)
    return make_report(Facts(backend), "C0", course, {}, began="2026-11-24T12:00:00+00:00", seconds=1.0)


def test_a_whole_report_has_no_fault_until_it_is_changed(report: Report) -> None:
    assert report.level is not None
    assert report.level.label == "C0"
    assert find_faults(report) == []
    (fault,) = find_faults(report.model_copy(update={"seconds": 2.0}))
    assert fault.startswith("its digest does not match its content")


def with_first(report: Report, **facts: Any) -> tuple[TestResult, ...]:
    """Return the tests of ``report``, of the first of which something is changed."""
    first, *others = report.tests
    return (first.model_copy(update=facts), *others)


def test_a_report_with_the_fact_of_an_earlier_suite_is_read(report: Report, tmp_path: Path) -> None:
    told = json.loads(report.to_json())
    told["suite"]["mutation"] = ""
    (tmp_path / "report.json").write_text(json.dumps(told))

    assert Report.read(tmp_path / "report.json") == report
    assert not Report.read(tmp_path / "report.json").is_changed


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sources": "0" * 64}, "a suite whose files differ from those that are installed"),
        ({"northbridge": "9.9"}, "it is from the suite of northbridge 9.9"),
        ({"options_off": ("STREAMS=immediate",)}, "its simulated chip ran without strict options: STREAMS=immediate"),
    ],
)
def test_a_report_of_another_suite_is_told(report: Report, changed: dict[str, Any], words: str) -> None:
    suite = report.suite.model_copy(update=changed)

    assert any(words in fault for fault in find_faults(report.model_copy(update={"suite": suite}).sealed()))


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (lambda report: report.tests[:2], "it has no result of 1 tests up to C0, such as C0/Plugin/test_2"),
        (lambda report: report.tests + report.tests[:1], "it has two results of one test"),
        (
            lambda report: (*report.tests, *with_first(report, id="C0/Mine/test_all")[:1]),
            "it has results of 1 tests that the suite does not have, such as C0/Mine/test_all",
        ),
        (
            lambda report: with_first(report, ending=Ending.FAILED),
            "the verdicts on 1 tests do not follow from how they ended",
        ),
        (
            lambda report: with_first(report, ending=Ending.FAILED, verdict=Verdict.FAIL),
            "its levels do not follow from its tests",
        ),
    ],
)
def test_tests_that_contradict_the_report_are_told(
    report: Report, tests: Callable[[Report], tuple[TestResult, ...]], words: str
) -> None:
    changed = report.model_copy(update={"tests": tests(report)}).sealed()

    assert any(words in fault for fault in find_faults(changed))


def test_claims_that_contradict_the_tests_are_told(report: Report) -> None:
    proved = report.claims["fit"].model_copy(update={"finding": "proved", "tests": 99})
    changed = report.model_copy(update={"claims": {**report.claims, "fit": proved}}).sealed()

    assert "what it says of 1 claims does not follow from its tests, such as fit" in find_faults(changed)
