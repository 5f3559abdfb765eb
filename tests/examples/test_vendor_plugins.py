"""Third parties' plugins, as far as a machine without their software shows them: metadata and what is missing."""

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

EXAMPLES = Path(__file__).parents[2] / "examples"
FLAGOS = EXAMPLES / "vendor_flagos"
NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
ASKED = tuple(f"C0/{suite}/" for suite in ("PluginMetadata", "Declaration", "PluginImport", "MissingSoftware"))


PLUGINS = {
    "flagos": ("northbridge-flagos", "torch_fl"),
    "rgpu": ("northbridge_rgpu", "rgpu"),
    "vulkan": ("northbridge_vulkan", "torchvulkan"),
}
"""The distribution of each, and the package that it needs."""

of_each = pytest.mark.parametrize("name", PLUGINS)


@pytest.fixture
def site(install: Install, name: str) -> Site:
    """The plugin, built to a wheel and installed beside ours."""
    return install(EXAMPLES / f"vendor_{name}")


def test_flagos_is_fifteen_lines_at_most() -> None:
    _, *lines = [line for line in (FLAGOS / "northbridge_flagos.py").read_text().splitlines() if line]

    assert len(lines) <= 15


@of_each
def test_it_is_listed_as_without_its_software(site: Site, name: str, tmp_path: Path) -> None:
    environ = site.environ(NORTHBRIDGE_DISABLE="cpu_sim,hpu,npu,sdaa,xpu")

    listed = run_command(NORTHBRIDGE, "list", "--json", folder=tmp_path, environ=environ)

    (row,) = [each for each in json.loads(listed.stdout)["backends"] if each["name"] == name]
    distribution, package = PLUGINS[name]
    assert (row["distribution"], row["status"], row["devices"]) == (distribution, "no software", 0)
    assert package in row["reason"]
    assert listed.returncode == 0, listed.stderr


@of_each
def test_it_passes_the_suites_questions_about_a_plugin(site: Site, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in site.folders:
        monkeypatch.syspath_prepend(folder)

    results = try_backend(name, "C0", ASKED, {**os.environ, **site.environ()}, forked=False)

    assert len(results) > 20
    assert [(each.id, each.evidence[-800:]) for each in results if each.verdict is not Verdict.PASS] == []


def test_page_of_flagos_says_that_nobody_ran_it() -> None:
    page = (FLAGOS / "README.md").read_text()

    assert "**Expected, never run.**" in page
    assert page.count("https://github.com/flagos-ai/Torch-FL/blob/main/") >= 5
