"""The command `northbridge doctor`: what is printed, written, and told by the exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.core.command import NO_CHIP, assert_children_end, beside, flowing, northbridge
from tests.core.conftest import Install, Site


class TestThePage:
    @pytest.fixture(scope="class")
    @classmethod
    def page(cls, contracted: Site) -> str:
        environ = {"CONTRACTED_MACHINE": "", "NORTHBRIDGE_ZETA_X": "1", "MASTER_PORT": "0"}
        return northbridge(contracted, "doctor", "contracted", **environ).stdout

    @pytest.mark.parametrize(
        "part",
        [
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
        ],
    )
    def test_it_says_everything_on_an_ordinary_terminal(self, page: str, part: str) -> None:
        assert part in flowing(page)
        assert max(len(line) for line in page.splitlines()) <= 80
        assert "…" not in page


def test_without_a_name_missing_backends_are_not_errors(install: Install, without_lightning: Site) -> None:
    site = beside(without_lightning, *install("acme", "no_hardware", "load_needs_software").folders)

    run = northbridge(site, "doctor", "--json")

    found = json.loads(run.stdout)
    states = {each["states"]["name"]: each["states"]["status"] for each in found["backends"]}
    expected = {"acme": "ready", "cpu_sim": "off", "load_needs_software": "no software", "no_hardware": "no hardware"}
    assert {name: states[name] for name in expected} == expected
    assert {each["level"] for each in found["advice"]} == {"software missing", "hardware missing", "note"}
    assert run.returncode == 0


def test_missing_hardware_of_the_named_backend_is_4(install: Install, without_lightning: Site) -> None:
    """test_backend_report.py has 1 and 3, for what is wrong and for missing software."""
    site = beside(without_lightning, *install("no_hardware").folders)

    assert northbridge(site, "doctor", "no_hardware").returncode == 4


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_report_that_cannot_be_written_is_printed_all_the_same(install: Install, without_lightning: Site) -> None:
    site = beside(without_lightning, *install("acme").folders)

    run = northbridge(site, "doctor", "acme", "--json", "--output", "/dev/full")

    assert json.loads(run.stdout)["asked"] == "acme"
    assert "/dev/full could not be written: No space left on device" in " ".join(run.stderr.split())
    assert run.returncode == 2


def test_what_is_written_is_what_is_printed_as_json(install: Install, without_lightning: Site) -> None:
    site = beside(without_lightning, *install("acme").folders)

    run = northbridge(site, "doctor", "acme", "--json", "--output", "found.json")

    assert (site.here / "found.json").read_text() == run.stdout
    found = json.loads(run.stdout)
    assert (found["asked"], found["exit_code"], run.stderr) == ("acme", 0, "")
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    (only,) = found["backends"]
    assert (only["contract"], only["machine"], found["advice"]) == (None, {}, [])


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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_the_commands_end_is_that_of_its_children(contracted: Site, tmp_path: Path, number: int, code: int) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    paths = os.pathsep.join(map(str, contracted.folders))
    environ = {
        **os.environ,
        **NO_CHIP,
        "PYTHONPATH": paths,
        "CONTRACTED_MACHINE": "hangs",
        "CONTRACTED_PIPE": str(alive),
    }

    assert_children_end(["doctor", "contracted"], environ, alive, number, code)
