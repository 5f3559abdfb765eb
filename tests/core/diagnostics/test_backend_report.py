"""One backend, examined: its states, its machine, its environment, and each line of its contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.core.command import beside, northbridge
from tests.core.conftest import Install, Site

Examine = Callable[..., dict[str, Any]]


def report(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["backends"]
    return dict(only)


def advice(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["level"], each["what"]) for each in found["advice"] if each["about"] == "contracted"]


@pytest.fixture(scope="module")
def found(contracted: Site) -> dict[str, Any]:
    """Return the findings about a vendor with only a wrong contract."""
    found: dict[str, Any] = json.loads(
        northbridge(contracted, "doctor", "contracted", "--json", CONTRACTED_VISIBLE="1").stdout
    )
    return found


class TestABackendWhoseContractIsPartlyWrong:
    def test_its_states_are_told_apart(self, found: dict[str, Any]) -> None:
        states = report(found)["states"]

        assert (states["version"], states["distribution"]) == ("1.2.3", "northbridge-contracted")
        assert (states["loadable"], states["devices"], states["status"]) == (True, 2, "ready")
        assert report(found)["selected"] is False

    def test_its_machine_is_as_the_backend_describes_it(self, found: dict[str, Any]) -> None:
        machine = report(found)["machine"]

        assert (machine["driver"], machine["firmware"]) == ("7.1", "fw-3")
        assert machine["cards"][1] == {"index": 1, "model": "Anvil", "held by": 4711}
        assert machine["module of index"] == {"0": 3, "1": 1}

    def test_its_variables_are_told_with_what_loading_wrote(self, found: dict[str, Any]) -> None:
        variables = {each["name"]: (each["value"], each["written"]) for each in report(found)["contract"]["variables"]}

        assert variables == {"CONTRACTED_VISIBLE": ("1", None), "MASTER_PORT": (None, "12345")}

    def test_each_line_is_judged_and_inferred_ones_come_first(self, found: dict[str, Any]) -> None:
        contract = report(found)["contract"]
        judged = [(each["evidence"], each["name"], each["verdict"]) for each in contract["findings"]]

        assert judged == [
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

    def test_what_is_wrong_is_told_with_the_line_and_the_source(self, found: dict[str, Any]) -> None:
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
        assert (
            "torch.contracted.memory_stats(device=None) -> dict[str, int]: it has no parameter 'device'" in optional[1]
        )
        assert found["exit_code"] == 1

    def test_no_card_is_taken(self, found: dict[str, Any]) -> None:
        assert name_line(found) == "it was not called, which would take a card; --acquire does"


def name_line(found: dict[str, Any]) -> str:
    (line,) = (each for each in report(found)["contract"]["findings"] if each["name"].endswith("get_device_name"))
    return str(line["found"])


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

    assert report(found)["environment_problem"] == told
    assert advice(found)[0] == ("wrong", told)


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


def test_contract_is_not_checked_without_its_software(examine: Examine) -> None:
    found = examine(CONTRACTED_RELEASE="0")

    contract = report(found)["contract"]
    assert (contract["lines"], contract["checked"], contract["findings"]) == (14, False, [])
    ((level, what),) = advice(found)
    assert level == "software missing"
    assert "its software is not installed: ModuleNotFoundError: No module named 'libcontracted'" in what
    assert found["exit_code"] == 3


def test_contract_is_checked_without_its_hardware(examine: Examine) -> None:
    found = examine(CONTRACTED_CARDS="0")

    assert report(found)["states"]["status"] == "no hardware"
    assert len(report(found)["contract"]["findings"]) == 14
    levels = [level for level, _ in advice(found)]
    assert ("hardware missing", "this machine has no such device") in advice(found)
    assert levels == sorted(levels, key=["wrong", "hardware missing", "note"].index)
    assert "note" in levels  # about the defaults of its Device, which no run here meets
    assert found["exit_code"] == 1  # the contract is wrong, which weighs more


def test_a_contract_that_cannot_be_read_is_told_once(install: Install, without_lightning: Site) -> None:
    site = beside(without_lightning, *install("contract_misspelt").folders)

    found = json.loads(northbridge(site, "doctor", "contract_misspelt", "--json").stdout)

    (only,) = found["advice"]
    assert "its contract.toml line 4 is wrong: 'torch_contract_misspelt': kind='modul': Input should be" in only["what"]
    assert (report(found)["contract"], found["exit_code"]) == (None, 1)
