"""Facts about a backend and a machine in a report."""

from __future__ import annotations

import os

import pytest
from tests.core.conftest import Install

from northbridge import BackendNotFoundError, Capabilities
from northbridge_conformance.report.facts import Facts, find_facts
from northbridge_conformance.report.report import BackendFacts
from northbridge_conformance.report.suite_run import make_report
from northbridge_conformance.runner.event_log import Ended, Planned
from northbridge_conformance.runner.supervisor import Course
from northbridge_conformance.verdict import Ending

REAL = Facts(BackendFacts(name="cpu_sim", distribution="acme", version="1.0"), variables=("ACME_VISIBLE_DEVICES",))
SIMULATED = Facts(REAL.backend.model_copy(update={"simulated": True}))


def test_a_backend_is_asked_in_a_process_of_its_own() -> None:
    facts = find_facts("cpu_sim", {**os.environ, "NORTHBRIDGE_CPU_SIM_DEVICES": "3"})

    assert (facts.backend.distribution, facts.backend.device, facts.backend.collective) == (
        "northbridge",
        "cpu_sim",
        "simccl",
    )
    assert (facts.backend.devices, facts.backend.simulated, facts.backend.problem) == (3, True, "")
    assert facts.capabilities.float32.answer == "yes"
    assert facts.versions["torch"].startswith("2.")


def test_claims_are_known_if_the_software_cannot_load(install_here: Install) -> None:
    install_here("load_needs_software")

    facts = find_facts("load_needs_software")

    assert (facts.backend.device, facts.backend.devices) == ("load_needs_software", 0)
    assert "its software 'torch_load_needs_software' is not installed" in facts.backend.problem


def test_origin_is_known_if_the_plugin_cannot_be_imported(install_here: Install) -> None:
    install_here("import_exits")

    facts = find_facts("import_exits")

    assert (facts.backend.distribution, facts.backend.api) == ("northbridge-import-exits", 0)
    assert facts.capabilities == Capabilities()
    assert "PluginImportError" in facts.backend.problem


def test_a_name_that_nobody_has_is_told() -> None:
    with pytest.raises(BackendNotFoundError):
        find_facts("cpu_simm")


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


def test_a_simulated_chips_options_are_told_with_their_values() -> None:
    """They decide what its report is worth."""
    environ = {"NORTHBRIDGE_CPU_SIM_STREAMS": "immediate", "NORTHBRIDGE_CPU_SIM_NAME": "word"}

    assert SIMULATED.describe_machine(environ).environment == {**environ, "NORTHBRIDGE_CPU_SIM_NAME": "(not shown)"}


def test_a_simulated_chip_has_strict_options() -> None:
    streams = "NORTHBRIDGE_CPU_SIM_STREAMS"

    assert SIMULATED.environ_of_suite({})[streams] == "deferred"
    assert SIMULATED.environ_of_suite({streams: "immediate"})[streams] == "immediate"
    assert REAL.environ_of_suite({}) == {}


def test_what_the_user_spares_a_simulated_chip_is_listed() -> None:
    assert SIMULATED.list_options_off({}) == ()
    assert SIMULATED.list_options_off({"NORTHBRIDGE_CPU_SIM_STREAMS": "deferred"}) == ()
    assert SIMULATED.list_options_off({"NORTHBRIDGE_CPU_SIM_STREAMS": "immediate"}) == (
        "NORTHBRIDGE_CPU_SIM_STREAMS=immediate, and not deferred: unset it",
    )
    assert REAL.list_options_off({"NORTHBRIDGE_CPU_SIM_STREAMS": "immediate"}) == ()


def test_a_simulated_chip_without_strict_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("northbridge_conformance.report.facts.strict_options", lambda _name: {})

    assert SIMULATED.list_options_off({}) == ("it has no strict options: give its Simulation some",)


def test_the_report_of_a_run_that_was_broken_on_purpose_says_so() -> None:
    test = Planned(id="C0/A/b", chosen=True, level="C0", topic="", title="", claims=(), advice="")
    course = Course(
        {test.id: test}, {test.id: Ended(id=test.id, ending=Ending.WORKED, seconds=0.0)}, broken="add is off"
    )

    report = make_report(REAL, "C0", course, {}, began="", seconds=0.0)

    assert report.suite.mutation == "add is off"
