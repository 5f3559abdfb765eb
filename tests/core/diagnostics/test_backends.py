"""Backends in the list: one row for whatever a plugin may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.command import Completed, backend, beside, flowing, northbridge, row
from tests.core.conftest import Install, Site


@pytest.fixture(scope="module")
def run(install: Install, without_lightning: Site) -> Completed:
    """List an environment with a plugin for each thing that can be said about one."""
    site = install("acme", "hook_raises", "import_exits", "probe_crashes", "takes_cuda", "double_one", "double_two")
    return northbridge(
        beside(without_lightning, *site.folders), "list", NORTHBRIDGE_DISABLE="cpu_sim,hook_raises,hpu,npu,sdaa,xpu"
    )


class TestAnEnvironmentWithOneOfEach:
    @pytest.mark.parametrize(
        ("name", "cells"),
        [
            ("acme", ["0.1.0", "northbridge-acme", "ready", "yes", "2", "no"]),
            ("hook_raises", ["1.2.3", "northbridge-hook-", "off", "-", "-", "-"]),
            ("import_exits", ["1.2.3", "northbridge-", "broken", "no", "-", "-"]),
            ("probe_crashes", ["1.2.3", "northbridge-probe-", "broken", "no", "-", "no"]),
            ("cuda", ["1.2.3", "northbridge-takes-", "broken", "-", "-", "-"]),
            ("double", ["1.0", "northbridge-", "broken", "-", "-", "-"]),
        ],
    )
    def test_each_has_its_row(self, run: Completed, name: str, cells: list[str]) -> None:
        assert row(run.stdout, name) == [name, *cells]

    @pytest.mark.parametrize(
        "reason",
        [
            "hook_raises switched off by NORTHBRIDGE_DISABLE=cpu_sim,hook_raises,hpu,npu,sdaa,xpu",
            "(northbridge-import-exits 1.2.3) could not be imported: SystemExit: no licence for this machine.",
            "(northbridge-probe-crashes 1.2.3): the process that asked for its devices was killed by SIGSEGV",
            "cuda northbridge-takes-cuda 1.2.3 calls its backend 'cuda', which is Lightning's own word",
            "double backend 'double' is installed twice: northbridge-double-one 1.0 and northbridge-double-two 2.0.",
        ],
    )
    def test_each_reason_is_told_in_full(self, run: Completed, reason: str) -> None:
        assert reason in flowing(run.stdout)

    def test_it_fits_an_ordinary_terminal(self, run: Completed) -> None:
        assert max(len(line) for line in run.stdout.splitlines()) <= 80
        assert "…" not in run.stdout

    def test_it_ends_with_the_exit_code_for_a_broken_backend(self, run: Completed) -> None:
        assert run.returncode == 1

    def test_redirected_output_is_told_that_it_lasts(self, run: Completed) -> None:
        assert run.stderr.endswith("asking in child processes, which may take minutes\n")
        assert run.stderr.count("\n") == 1


def test_what_is_simply_not_there_is_no_error(install: Install, without_lightning: Site) -> None:
    site = beside(without_lightning, *install("load_needs_software", "no_hardware").folders)

    run = northbridge(site, "list", "--json", _NORTHBRIDGE_DETECTED='{"no_hardware": {"devices": 8}}')

    software, hardware = backend("load_needs_software", run), backend("no_hardware", run)
    assert (software["status"], software["loadable"], software["devices"]) == ("no software", False, 0)
    assert "its software 'torch_load_needs_software' is not installed. Fix: install" in software["reason"]
    # What another process of this tree was told, in the variable above, is asked anew.
    assert (hardware["status"], hardware["loadable"], hardware["devices"]) == ("no hardware", True, 0)
    assert hardware["reason"] == "this machine has no such device"
    assert run.returncode == 0


def test_the_list_compiles_nothing(install: Install, tmp_path: Path) -> None:
    """It says so of the simulated chip, also where the stand-ins of a vendor are imported with torch."""
    run = northbridge(
        install("acme"),
        "list",
        NORTHBRIDGE_CPU_SIM_CACHE=str(tmp_path / "cache"),
        NORTHBRIDGE_DISABLE="hpu,npu,xpu",
        NORTHBRIDGE_SIMULATE="sdaa",
    )

    assert [row(run.stdout, name)[3:5] for name in ("cpu_sim", "sdaa")] == [["no software", "no"]] * 2
    assert flowing(run.stdout).count("the simulated chip is not compiled yet. Fix: use it, which compiles it") == 2
    assert (run.returncode, list((tmp_path / "cache").iterdir())) == (0, [])
