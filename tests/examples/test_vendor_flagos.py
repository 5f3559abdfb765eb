"""A third party's plugin for torch-fl, as far as a machine without torch-fl shows it: metadata and missing software."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tests.core.conftest import Install, Site, install as install
from tests.faults.wrong_backends import try_backend
from tests.scripts import run_command

from northbridge_conformance.verdict import Verdict

VENDOR = Path(__file__).parents[2] / "examples" / "vendor_flagos"
NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
ASKED = tuple(f"C0/{suite}/" for suite in ("PluginMetadata", "Declaration", "PluginImport", "MissingSoftware"))


@pytest.fixture
def site(install: Install) -> Site:
    """The plugin, built to a wheel and installed beside ours."""
    return install(VENDOR)


def test_it_is_fifteen_lines_at_most() -> None:
    _, *lines = [line for line in (VENDOR / "northbridge_flagos.py").read_text().splitlines() if line]

    assert len(lines) <= 15


def test_it_is_listed_as_without_its_software(site: Site, tmp_path: Path) -> None:
    environ = site.environ(NORTHBRIDGE_DISABLE="cpu_sim,hpu,npu,sdaa,xpu")

    listed = run_command(NORTHBRIDGE, "list", "--json", folder=tmp_path, environ=environ)

    (row,) = [each for each in json.loads(listed.stdout)["backends"] if each["name"] == "flagos"]
    assert (row["distribution"], row["status"], row["devices"]) == ("northbridge-flagos", "no software", 0)
    assert "torch_fl" in row["reason"]
    assert listed.returncode == 0, listed.stderr


def test_it_passes_the_suites_questions_about_a_plugin(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in site.folders:
        monkeypatch.syspath_prepend(folder)

    results = try_backend("flagos", "C0", ASKED, {**os.environ, **site.environ()}, forked=False)

    assert len(results) > 20
    assert [(each.id, each.evidence[-800:]) for each in results if each.verdict is not Verdict.PASS] == []


def test_its_page_says_that_nobody_ran_it() -> None:
    page = (VENDOR / "README.md").read_text()

    assert "**Expected, never run.**" in page
    assert page.count("https://github.com/flagos-ai/Torch-FL/blob/main/") >= 5
