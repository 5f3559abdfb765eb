"""Environments to list and to examine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.command import beside, northbridge
from tests.core.conftest import Install, Site

_PLUGIN = """
import os, signal, subprocess, sys, threading
import northbridge

class Card(northbridge.Device):
    type = {name!r}

class CCL(northbridge.Collective):
    name = "ccl"

class Software(northbridge.Bridge):
    def detect(self):
        return 2

    def load(self):
        import torch
        torch.utils.rename_privateuse1_backend({name!r})
        torch._register_device_module({name!r}, sys.modules[__name__])

{body}

@northbridge.hookimpl
def northbridge_backend():
    return northbridge.Backend({name!r}, Card(), CCL(), Software())
"""


@pytest.fixture(scope="session")
def without_lightning(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Everything that is installed here but Lightning, for Pythons that a test starts."""
    folder, farm = tmp_path_factory.mktemp("hook"), tmp_path_factory.mktemp("packages")
    (packages,) = (Path(each) for each in sys.path if (Path(each) / "lightning").is_dir())
    for each in packages.iterdir():
        if (
            not each.name.startswith(("lightning-", "lightning_fabric", "pytorch_lightning"))
            and each.name != "lightning"
        ):
            (farm / each.name).symlink_to(each)
    (folder / "sitecustomize.py").write_text(
        f"import sys; sys.path[:] = [{str(farm)!r} if each == {str(packages)!r} else each for each in sys.path]"
    )
    return Site((folder,), folder)


@pytest.fixture
def write_plugin(without_lightning: Site, tmp_path: Path) -> Callable[[str, str], Site]:
    """Install a plugin of one module, whose detect() finds two devices, unless ``body`` says otherwise."""

    def write_plugin(name: str, body: str) -> Site:
        install_plugin(tmp_path / "site", name, body)
        return beside(without_lightning, tmp_path / "site")

    return write_plugin


def install_plugin(folder: Path, name: str, body: str) -> None:
    """Install a plugin of one module in ``folder``."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[northbridge.backends]\n{name} = northbridge_{name}\n")
    (folder / f"northbridge_{name}.py").write_text(_PLUGIN.format(name=name, body=body))


@pytest.fixture(scope="session")
def contracted(install: Install, without_lightning: Site) -> Site:
    """The vendor that keeps a contract, and no Lightning, which would take seconds."""
    return beside(without_lightning, *install("contracted").folders)


@pytest.fixture
def examine(contracted: Site) -> Callable[..., dict[str, Any]]:
    """Ask the doctor about that vendor, in this environment, for JSON."""

    def examine(*arguments: str, **environ: str) -> dict[str, Any]:
        run = northbridge(contracted, "doctor", "contracted", "--json", *arguments, **environ)
        found: dict[str, Any] = json.loads(run.stdout)
        assert (run.returncode, run.stderr) == (found["exit_code"], "")
        return found

    return examine
