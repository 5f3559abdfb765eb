"""The site builds, with no broken link, and asks nobody else for anything."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from tests.docs.page import ROOT

import northbridge
from northbridge.conformance.levels import LEVELS
from northbridge.lightning.classes import COMBINATIONS
from northbridge.lightning.namespaces import NAMESPACES

PUBLIC = {
    *(f"northbridge.{name}" for name in northbridge.__all__),
    *(f"{each.home}.{row.name}" for each in NAMESPACES.values() for row in COMBINATIONS if each.host in row.hosts),
    *(f"northbridge.conformance.levels.{name}" for name in LEVELS),
    *(f"{mixin.__module__}.{mixin.__qualname__}" for row in COMBINATIONS for mixin in row.mixins),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_builds_with_no_broken_link(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert (site / "errors" / "index.html").is_file()


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = (
        r"<(script|img|iframe)[^>]* src=[\"']?(https?:)?//|<link[^>]* rel=[\"']?(stylesheet|preconnect)[\"']? [^>]*//"
    )

    assert not [str(page) for page in site.rglob("*.html") if re.search(loads, page.read_text())]


def test_reference_has_every_public_name(site: Path) -> None:
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()

    assert PUBLIC - {line.partition(" ")[0] for line in inventory.splitlines()} == set()
