"""The command `northbridge doctor`: a backend, its contract, what is printed and written, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.command import flowing, northbridge
from tests.core.conftest import Install, Site

Examine = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def contracted(install: Install, without_lightning: Site) -> Site:
    """The vendor that keeps a contract, and no Lightning, which would take seconds."""
    return without_lightning.beside(*install("contracted").folders)


@pytest.fixture
def examine(contracted: Site) -> Examine:
    """Ask the doctor about that vendor, in this environment, for JSON."""

    def examine(*arguments: str, **environ: str) -> dict[str, Any]:
        run = northbridge(contracted, "doctor", "contracted", "--json", *arguments, **environ)
        found: dict[str, Any] = json.loads(run.stdout)
        assert (run.returncode, run.stderr) == (found["exit_code"], "")
        return found

    return examine


def report(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["backends"]
    return dict(only)


def advice(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["level"], each["what"]) for each in found["advice"] if each["about"] == "contracted"]


def name_line(found: dict[str, Any]) -> str:
    (line,) = (each for each in report(found)["contract"]["findings"] if each["name"].endswith("get_device_name"))
    return str(line["found"])


def test_a_backend_whose_contract_is_partly_wrong(examine: Examine) -> None:
    """Its inferred lines come first, what is wrong is told with its line and source, and no card is taken."""
    found = examine(CONTRACTED_VISIBLE="1")

    states, machine, contract = (report(found)[name] for name in ("states", "machine", "contract"))
    assert (states["version"], states["distribution"]) == ("1.2.3", "northbridge-contracted")
    assert (states["loadable"], states["devices"], states["status"]) == (True, 2, "ready")
    assert report(found)["selected"] is False
    assert (machine["driver"], machine["firmware"]) == ("7.1", "fw-3")
    assert machine["cards"][1] == {"index": 1, "model": "Anvil", "held by": 4711}
    assert machine["module of index"] == {"0": 3, "1": 1}
    variables = {each["name"]: (each["value"], each["written"]) for each in contract["variables"]}
    assert variables == {"CONTRACTED_VISIBLE": ("1", None), "MASTER_PORT": (None, "12345")}
    assert [(each["evidence"], each["name"], each["verdict"]) for each in contract["findings"]] == [
        ("inferred", "torch.contracted.Stream", "holds"),
        ("inferred", "torch.contracted.Stream.wait", "holds"),
        ("inferred", "torch.contracted.memory_stats", "wrong"),
        ("inferred", "torch.contracted.is_lazy", "wrong"),
        ("inferred", "torch.contracted.empty_cache", "note"),
        ("inferred", "MASTER_PORT", "unchecked"),
        ("read", "torch_contracted", "holds"),
        ("read", "torch.contracted.device_count", "holds"),
        ("read", "torch.contracted.get_device_name", "holds"),
        ("read", "torch.contracted.graph", "note"),
        ("read", "torch.contracted.native", "unchecked"),
        ("read", "torch.contracted.self_check", "holds"),
        ("read", "CONTRACTED_VISIBLE", "unchecked"),
        ("read", "a process holds one card", "unchecked"),
    ]
    assert (contract["lines"], contract["inferred"], contract["checked"]) == (14, 6, True)
    assert contract["distributions"] == {"northbridge-contracted": "1.2.3"}
    required, optional, *defaults = advice(found)
    assert defaults[0] == (
        "wrong",
        "Card.synchronize() calls torch.contracted.synchronize(), and it is not there. Fix: override synchronize()",
    )
    assert required[1] == (
        "torch.contracted.is_lazy() -> bool: called, it returned '0', a str; contract.toml line 59 (inferred,"
        " https://contracted.example/docs) is wrong here: install a release of Contracted Anvil's software that has"
        " it, or tell the backend's author"
    )
    assert "torch.contracted.memory_stats(device=None) -> dict[str, int]: it has no parameter 'device'" in optional[1]
    assert found["exit_code"] == 1
    assert name_line(found) == "it was not called, which would take a card; --acquire does"


PAGE = (
    "contracted 1.2.3 northbridge- ready yes 2 no contracted",
    "accelerator='auto' was not asked: no Lightning is installed that Northbridge serves contracted loaded:",
    "NORTHBRIDGE_ZETA_X is set: note, no installed package reads it; it may be misspelt or left over",
    "MASTER_PORT '0': wrong, MASTER_PORT='0' on host",
    "driver 7.1 firmware fw-3 cards index 0, model Anvil, held by - index 1, model Anvil, held by 4711",
    "module of index 0: 3 1: 1",
    "contracted: its contract with Contracted Anvil: 14 lines, 6 of them inferred northbridge-contracted 1.2.3",
    "MASTER_PORT '0' not set CONTRACTED_VISIBLE line evidence verdict symbol",
    "59 inferred wrong torch.contracted.is_lazy() -> bool: called, it returned '0', a str",
    "13 read holds torch.contracted.device_count() -> int: called, it returned 2",
    "What is wrong, and what to do, most important first wrong: MASTER_PORT MASTER_PORT='0' on host",
)


def test_its_page_says_everything_on_an_ordinary_terminal(contracted: Site) -> None:
    environ = {"CONTRACTED_MACHINE": "", "NORTHBRIDGE_ZETA_X": "1", "MASTER_PORT": "0"}

    page = northbridge(contracted, "doctor", "contracted", **environ).stdout

    assert [part for part in PAGE if part not in flowing(page)] == []
    assert max(len(line) for line in page.splitlines()) <= 80
    assert "…" not in page


def test_a_card_is_taken_with_the_option_for_it(examine: Examine) -> None:
    """A call that crashes leaves what was found before it."""
    found = examine("--acquire", CONTRACTED_CARD="free", CONTRACTED_SELF_CHECK="crashes")

    assert report(found)["acquire_problem"] == ""
    assert name_line(found) == "called, it returned 'Anvil'"
    assert len(report(found)["contract"]["findings"]) == 10
    assert "was killed by SIGBUS while checking its contract" in advice(found)[0][1]
    what = "its process ended while torch.contracted.self_check was checked; the lines after it were not"
    assert ("wrong", what) in advice(found)


def test_after_a_failed_acquire_nothing_more_is_tried(examine: Examine) -> None:
    """Nor does a machine that cannot be described hide anything else."""
    found = examine("--acquire", CONTRACTED_CARD="taken", CONTRACTED_MACHINE="raises")

    assert ("wrong", "device 0 of 'contracted' is held by process 4711") in advice(found)
    assert name_line(found) == "it was not called, which would take a card; --acquire does"
    told = "its describe_machine() raised OSError: no management library. Fix: upgrade the plugin"
    assert (report(found)["machine"], report(found)["machine_problem"]) == ({}, told)
    assert len(report(found)["contract"]["findings"]) == 14
    assert ("wrong", told) in advice(found)


def test_lacking_software_is_refused_and_still_checked(examine: Examine) -> None:
    found = examine(CONTRACTED_RELEASE="3")

    states = report(found)["states"]
    assert (states["status"], states["loadable"]) == ("broken", False)
    assert (
        "needs torch.contracted.device_count() -> int, and torch.contracted has no 'device_count'" in states["reason"]
    )
    assert len(report(found)["contract"]["findings"]) == 14
    told = [what for _, what in advice(found) if what.startswith("torch.contracted.device_count() -> int: ")]
    assert "contract.toml line 13 (read, https://contracted.example/docs) is wrong here: install a release" in told[0]


@pytest.mark.parametrize(
    ("visible", "told"),
    [
        ("all", "CONTRACTED_VISIBLE='all' is not a card's number. Fix: unset it for all cards"),
        ("raises", "its check_environment() raised KeyError: 'raises'. Fix: upgrade the plugin"),
    ],
)
def test_a_variable_of_the_vendors_that_is_wrong_comes_first(examine: Examine, visible: str, told: str) -> None:
    found = examine(CONTRACTED_VISIBLE=visible)

    assert (report(found)["environment_problem"], advice(found)[0]) == (told, ("wrong", told))


def test_capabilities_that_raise_are_told(write_plugin: Callable[[str, str], Site]) -> None:
    site = write_plugin("brittle", "Card.capabilities = lambda self, claimed: 1 / 0")

    found = json.loads(northbridge(site, "doctor", "brittle", "--json").stdout)

    told = "the check of its Device's defaults raised ZeroDivisionError: division by zero. Fix: upgrade the plugin"
    assert report(found)["device_problems"] == [told]


def test_missing_software_is_told_in_the_bridges_words(write_plugin: Callable[[str, str], Site]) -> None:
    """With no device, and also by `list`; tests/core/lightning/accelerators has the same sentence of a Trainer."""
    words = "this torch was built without it. Fix: pip install torch --index-url https://brittle.example"
    site = write_plugin(
        "brittle", f"Software.detect = lambda self: 0\nSoftware.missing = lambda self: {words!r}\ndel Software.load"
    )

    examined = northbridge(site, "doctor", "brittle", "--json")
    listed = northbridge(site, "list", "--json")

    sentence = f"backend 'brittle' (brittle 1.0): {words}"
    found = json.loads(examined.stdout)
    assert (report(found)["states"]["status"], report(found)["states"]["reason"]) == ("no software", sentence)
    assert ["software missing", sentence] in [[each["level"], each["what"]] for each in found["advice"]]
    assert examined.returncode == 3
    (row,) = (each for each in json.loads(listed.stdout)["backends"] if each["name"] == "brittle")
    assert (row["status"], row["reason"], listed.returncode) == ("no software", sentence, 0)


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        ("crashes", "its process was killed by SIGSEGV while describing its machine. Fix: match it to this torch"),
        ("hangs", "its process took longer than 4.25 s while describing its machine. Fix: try when"),
    ],
)
def test_a_machine_that_kills_who_asks_is_told(examine: Examine, deed: str, told: str) -> None:
    found = examine(CONTRACTED_MACHINE=deed, NORTHBRIDGE_DETECT_TIMEOUT="1")

    assert report(found)["states"]["loadable"] is True
    assert told in advice(found)[0][1]


def test_contract_is_checked_without_hardware_alone(examine: Examine) -> None:
    bare, found = examine(CONTRACTED_RELEASE="0"), examine(CONTRACTED_CARDS="0")

    contract = report(bare)["contract"]
    assert (contract["lines"], contract["checked"], contract["findings"]) == (14, False, [])
    ((level, what),) = advice(bare)
    assert level == "software missing"
    assert "its software is not installed: ModuleNotFoundError: No module named 'libcontracted'" in what
    assert bare["exit_code"] == 3
    assert report(found)["states"]["status"] == "no hardware"
    assert len(report(found)["contract"]["findings"]) == 14
    levels = [level for level, _ in advice(found)]
    assert ("hardware missing", "this machine has no such device") in advice(found)
    assert levels == sorted(levels, key=["wrong", "hardware missing", "note"].index)
    assert "note" in levels  # about the defaults of its Device, which no run here meets
    assert found["exit_code"] == 1  # the contract is wrong, which weighs more


def test_a_contract_that_cannot_be_read_is_told_once(install: Install, without_lightning: Site) -> None:
    site = without_lightning.beside(*install("contract_misspelt").folders)

    found = json.loads(northbridge(site, "doctor", "contract_misspelt", "--json").stdout)

    (only,) = found["advice"]
    assert "its contract.toml line 4 is wrong: 'torch_contract_misspelt': kind='modul': Input should be" in only["what"]
    assert (report(found)["contract"], found["exit_code"]) == (None, 1)


def test_without_a_name_missing_backends_are_not_errors(install: Install, without_lightning: Site) -> None:
    site = without_lightning.beside(*install("acme", "no_hardware", "load_needs_software").folders)

    run = northbridge(site, "doctor", "--json")

    found = json.loads(run.stdout)
    states = {each["states"]["name"]: each["states"]["status"] for each in found["backends"]}
    expected = {"acme": "ready", "cpu_sim": "off", "load_needs_software": "no software", "no_hardware": "no hardware"}
    assert {name: states[name] for name in expected} == expected
    assert {each["level"] for each in found["advice"]} == {"software missing", "hardware missing", "note"}
    assert run.returncode == 0
    assert northbridge(site, "doctor", "no_hardware").returncode == 4


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_what_is_written_is_what_is_printed_as_json(install: Install, without_lightning: Site) -> None:
    """A report that cannot be written is printed all the same."""
    site = without_lightning.beside(*install("acme").folders)

    run = northbridge(site, "doctor", "acme", "--json", "--output", "found.json")
    full = northbridge(site, "doctor", "acme", "--json", "--output", "/dev/full")

    assert (site.here / "found.json").read_text() == run.stdout
    found = json.loads(run.stdout)
    assert (found["asked"], found["exit_code"], run.stderr) == ("acme", 0, "")
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    (only,) = found["backends"]
    assert (only["contract"], only["machine"], found["advice"]) == (None, {}, [])
    assert json.loads(full.stdout)["asked"] == "acme"
    assert "/dev/full could not be written: No space left on device" in flowing(full.stderr)
    assert full.returncode == 2


def test_each_namespace_is_told_and_what_auto_selects(install: Install) -> None:
    found = json.loads(northbridge(install("acme"), "doctor", "acme", "--json").stdout)

    assert [namespace["status"] for namespace in found["namespaces"]] == ["registered"] * 4
    assert (found["selection"]["chosen"], found["selection"]["failed"]) == ("acme", False)
    assert found["selection"]["reason"] == "its hardware is present, and no other accelerator's"
    assert [each["selected"] for each in found["backends"]] == [True]
    recorded = [(each["subject"], each["outcome"]) for each in found["record"]]
    assert {("lightning.fabric", "registered"), ("auto", "chose acme"), ("acme", "loaded")} <= set(recorded)


def test_what_auto_cannot_decide_is_told(install: Install) -> None:
    run = northbridge(install("acme"), "doctor", "acme", "--json", NORTHBRIDGE_SIMULATE="acme")

    found = json.loads(run.stdout)
    assert (found["selection"]["chosen"], found["selection"]["failed"]) == (None, True)
    told = [each["what"] for each in found["advice"] if each["about"] == "accelerator='auto'"]
    assert told[0].startswith("it raised SimulationError: NORTHBRIDGE_SIMULATE=acme, but no installed")
    assert run.returncode == 1
