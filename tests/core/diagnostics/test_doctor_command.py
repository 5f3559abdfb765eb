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
    def test_it_says_everything(self, page: str, part: str) -> None:
        assert part in flowing(page)

    def test_it_fits_an_ordinary_terminal(self, page: str) -> None:
        assert max(len(line) for line in page.splitlines()) <= 80
        assert "…" not in page


def test_without_a_name_missing_backends_are_not_errors(install: Install, without_lightning: Site) -> None:
    site = beside(without_lightning, *install("acme", "no_hardware", "load_needs_software").folders)

    run = northbridge(site, "doctor", "--json")

    found = json.loads(run.stdout)
    states = {each["states"]["name"]: each["states"]["status"] for each in found["backends"]}
    assert (
        states.items()
        >= {
            "acme": "ready",
            "cpu_sim": "off",
            "load_needs_software": "no software",
            "no_hardware": "no hardware",
        }.items()
    )
    assert {each["level"] for each in found["advice"]} == {"software missing", "hardware missing", "note"}
    assert run.returncode == 0


@pytest.mark.parametrize(
    ("vendor", "code"), [("acme", 0), ("load_raises", 1), ("load_needs_software", 3), ("no_hardware", 4)]
)
def test_the_exit_code_is_the_named_backends(install: Install, without_lightning: Site, vendor: str, code: int) -> None:
    site = beside(without_lightning, *install(vendor).folders)

    assert northbridge(site, "doctor", vendor).returncode == code


def test_unknown_name_is_wrong_usage_with_the_nearest(install: Install) -> None:
    run = northbridge(install("acme"), "doctor", "acmee")

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("northbridge: no backend 'acmee' is installed; found acme, ")
    assert run.stderr.endswith(". Did you mean 'acme'?\n")


def test_a_wrong_variable_of_ours_is_wrong_usage(install: Install) -> None:
    run = northbridge(install("acme"), "doctor", NORTHBRIDGE_DETECT_TIMEOUT="soon")

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("northbridge: NORTHBRIDGE_DETECT_TIMEOUT='soon' is not a number")


def test_an_option_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    run = northbridge(Site((), tmp_path), "doctor", "--jsom")

    assert run.returncode == 2
    assert "No such option: --jsom" in run.stderr


def test_unwritable_file_is_told_before_anything_starts(tmp_path: Path) -> None:
    run = northbridge(Site((), tmp_path), "doctor", "--output", "no_such_folder/found.json")

    assert (run.returncode, run.stdout) == (2, "")
    assert f"{tmp_path}/no_such_folder is not a writable folder" in run.stderr.replace("\n", "")


def test_the_name_of_a_folder_moves_no_terminal(tmp_path: Path) -> None:
    run = northbridge(Site((), tmp_path), "doctor", "--output", "\x1b]0;OWNED\x07no_such_folder/found.json")

    assert "no_such_folder is not a writable folder" in run.stderr.replace("\n", "")
    assert "\x1b" not in run.stderr
    assert "\x07" not in run.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_report_that_cannot_be_written_is_printed_all_the_same(install: Install) -> None:
    run = northbridge(install("acme"), "doctor", "acme", "--json", "--output", "/dev/full")

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


def test_help_tells_the_exit_codes(tmp_path: Path) -> None:
    run = northbridge(Site((), tmp_path), "doctor", "--help")

    assert "3  the software of the backend NAME is not installed" in run.stdout
    assert "4  the hardware of the backend NAME is not here" in run.stdout


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


@pytest.mark.parametrize("command", ["doctor", "list"])
def test_a_simulated_chip_that_nobody_brings_is_wrong_usage(install: Install, command: str) -> None:
    run = northbridge(install("acme"), command, NORTHBRIDGE_SIMULATE="ACME")

    assert run.returncode == 2
    assert "NORTHBRIDGE_SIMULATE=ACME: no backend 'ACME' is installed; found acme," in run.stderr
    assert "Did you mean 'acme'?" in " ".join(run.stderr.split())


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
