"""The site builds, its links lead somewhere, and its pages load nothing from other sites."""

from __future__ import annotations

import re
import runpy
import sys
import zlib
from pathlib import Path

import pytest
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from tests.docs.page import ROOT
from tests.scripts import run_python

import northbridge
from northbridge.lightning.classes import COMBINATIONS
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.levels import LEVELS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

PUBLIC = {
    *(f"northbridge.{name}" for name in northbridge.__all__),
    *(f"{each.home}.{row.name}" for each in NAMESPACES.values() for row in COMBINATIONS if each.host in row.hosts),
    *(f"northbridge_conformance.levels.{name}" for name in LEVELS),
    *(f"{mixin.__module__}.{mixin.__qualname__}" for row in COMBINATIONS for mixin in row.mixins),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = ("-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder))
    done = run_python(*build, folder=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_builds_with_no_broken_link(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert (site / "errors" / "index.html").is_file()


def test_a_report_that_was_changed_stops_the_build(tmp_path: Path) -> None:
    """Its page would say not to trust it."""
    (tmp_path / "shown").mkdir()
    report = (ROOT / "docs" / "shown" / "report.json").read_text()
    (tmp_path / "shown" / "report.json").write_text(report.replace("/test_", "/tested_", 1))
    files = Files([File("shown/report.json", str(tmp_path), str(tmp_path), use_directory_urls=True)])
    hook = runpy.run_path(str(ROOT / "docs" / "scripts" / "report_page.py"))

    with pytest.raises(PluginError, match=r"report\.json: its digest does not match its content: .* Fix: make shown"):
        hook["on_files"](files, config=MkDocsConfig())


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = (
        r"<(script|img|iframe)[^>]* src=[\"']?(https?:)?//|<link[^>]* rel=[\"']?(stylesheet|preconnect)[\"']? [^>]*//"
    )

    assert not [str(page) for page in site.rglob("*.html") if re.search(loads, page.read_text())]


def test_reference_has_every_public_name(site: Path) -> None:
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()

    assert PUBLIC - {line.partition(" ")[0] for line in inventory.splitlines()} == set()


def test_an_old_address_leads_to_the_section(site: Path) -> None:
    """Each former page leads on, and the section that it names is there."""
    moved = runpy.run_path(str(ROOT / "docs" / "scripts" / "site_pages.py"))["MOVED"]
    for old, new in moved.items():
        page, _, section = new.partition("#")
        folder = site / old.removesuffix(".md").removesuffix("index")
        (to,) = re.findall(r"url=(\S+?)\">", (folder / "index.html").read_text())
        there = (folder / to.partition("#")[0] / "index.html").resolve()

        assert there == (site / page.removesuffix(".md") / "index.html").resolve()
        assert not section or f'id="{section}"' in there.read_text(), old


def test_addresses_come_from_one_setting() -> None:
    """Without an address, no page and no distribution has one."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["northbridge"]
    wanted = {"Repository": told["repository"], "Documentation": told["site"]}

    for file in (
        ROOT / "pyproject.toml",
        ROOT / "conformance" / "pyproject.toml",
        *ROOT.glob("backends/*/pyproject.toml"),
    ):
        urls = tomllib.loads(file.read_text())["project"].get("urls", {})
        assert urls == {name: url for name, url in wanted.items() if url}, file


def test_no_page_has_what_only_the_site_shows() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]

    assert [str(page) for page in pages if re.search(r"--8<--|^(///|!!!|:::) ", page.read_text(), flags=re.M)] == []


def test_sections_and_alerts_are_tabs_and_boxes(site: Path) -> None:
    chips = re.findall(r"^### (.+)$", (ROOT / "docs" / "install.md").read_text(), flags=re.M)
    tabs = re.findall(r'<label for="__tabbed_\w+">(.+?)</label>', (site / "install" / "index.html").read_text())
    boxes = re.findall(r'class="admonition (\w+)"', (site / "hpu" / "index.html").read_text())

    assert tabs == chips
    assert len(tabs) == 6
    assert boxes == ["warning", "danger"]
