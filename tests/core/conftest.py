"""Vendors' distributions, installed for a test beside what the environment has.

A wheel that is unpacked into a folder on ``sys.path`` is an installed distribution, entry points and all. So each
folder of ``tests/vendors`` is built by its own build backend and unpacked, once a session, in milliseconds; and each
of the broken plugins is written as if it had been.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from tests.core import broken_plugins
from tests.core.broken_plugins import PLUGINS
from tests.scripts import run_python

import northbridge
from northbridge import process_record
from northbridge.discovery import declared, present
from northbridge.processes import environment as given

VENDORS = Path(__file__).parents[1] / "vendors"
TEMPLATE = Path(__file__).parents[2] / "examples" / "template"
_MADE = {"kelvin": "Kelvin K1"}
"""The vendors whose distribution is what the template makes, each with its chip."""

_OURS = ("NORTHBRIDGE_", "_NORTHBRIDGE_", "PYTHON", "TORCH_DEVICE_BACKEND_AUTOLOAD")


@dataclass(frozen=True)
class Site:
    """Where some vendors are installed, for Pythons that a test starts."""

    folders: tuple[Path, ...]
    here: Path

    def beside(self, *folders: Path) -> Site:
        """Return a place that has what is in ``folders`` too."""
        return replace(self, folders=(*self.folders, *folders))

    def environ(self, **more: str) -> dict[str, str]:
        """Return this process's environment, with the vendors found before anything else and ``more`` added."""
        before = os.environ.get("PYTHONPATH")
        path = [*map(str, self.folders), *([before] if before else [])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **more}

    def python(self, code: str, *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run ``code`` in a child, in an empty folder and an environment that says nothing but ``environ``."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        environ = {**clean, "PYTHONPATH": os.pathsep.join(map(str, self.folders)), **environ}
        return run_python(*flags, "-c", code, folder=self.here, environ=environ)

    def answer(self, code: str, *flags: str, **environ: str) -> Any:
        """Return what ``code`` prints, as JSON; it may print nothing else, nor anything to stderr."""
        child = self.python(code, *flags, **environ)
        assert (child.returncode, child.stderr) == (0, ""), child.stderr
        return json.loads(child.stdout)


class PlainDevice(northbridge.Device):
    """A device that torch has, so that nothing need be registered."""

    type = "cpu"


class PlainCollective(northbridge.Collective):
    name = "plain_ccl"


class PlainBridge(northbridge.Bridge):
    def load(self) -> None:
        """Load nothing."""


def make_backend(name: str = "tested", **parts: Any) -> northbridge.Backend:
    """Return a backend of plain parts, but for those that are given."""
    plain = {"device": PlainDevice(), "collective": PlainCollective(), "bridge": PlainBridge()}
    return northbridge.Backend(name, **{**plain, **parts})


Install = Callable[..., Site]


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Install the vendors that are named, or all of them, for Pythons that a test starts; others by their path."""
    root = tmp_path_factory.mktemp("vendors")
    others = {each.name for each in VENDORS.iterdir() if each.name != "wrong"}  # found as it should be, and wrong later
    everything = sorted(others | PLUGINS.keys())
    return lambda *names: install_in(root, *(names or everything))


def install_in(root: Path, *names: str | Path) -> Site:
    """Install the vendors that are named below ``root``."""
    here = root / "here"
    here.mkdir(exist_ok=True)
    return Site(tuple(_put(name, root / "site" / Path(name).name) for name in names), here)


def _put(name: str | Path, target: Path) -> Path:
    if target.exists():
        return target
    if isinstance(name, str) and name in PLUGINS:
        PLUGINS[name].write(target, name)
    else:
        source = target.parents[1] / "made" / name if name in _MADE else VENDORS / name
        if isinstance(name, str) and name in _MADE:
            copy_template(source, name, _MADE[name])
        (wheel,) = WheelBuilder(str(source)).build(directory=str(target.parents[1] / "wheels"), versions=["standard"])
        zipfile.ZipFile(wheel).extractall(target)
    return target


def copy_template(target: Path, name: str, chip: str = "") -> None:
    """Make the distribution of the backend ``name`` in ``target``, by the command that the documentation shows."""
    answers = [f"--data={key}={value}" for key, value in (("name", name), ("chip", chip)) if value]
    command = [sys.executable, "-m", "copier", "copy", "--quiet", "--defaults", *answers, str(TEMPLATE), str(target)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="session")
def without_lightning(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Everything that is installed here but Lightning, for Pythons that a test starts."""
    folder, farm = tmp_path_factory.mktemp("hook"), tmp_path_factory.mktemp("packages")
    (packages,) = (Path(each) for each in sys.path if (Path(each) / "lightning").is_dir())
    for each in packages.iterdir():
        if not re.match(r"lightning(-.*|_fabric.*)?$|pytorch_lightning", each.name):
            (farm / each.name).symlink_to(each)
    (folder / "sitecustomize.py").write_text(
        f"import sys; sys.path[:] = [{str(farm)!r} if each == {str(packages)!r} else each for each in sys.path]"
    )
    return Site((folder,), folder)


@pytest.fixture
def write_plugin(without_lightning: Site, tmp_path: Path) -> Callable[[str, str], Site]:
    """Install a plugin of one module, whose detect() finds two devices unless ``body`` says otherwise."""

    def write_plugin(name: str, body: str) -> Site:
        broken_plugins.write_plugin(tmp_path / "site", name, body)
        return without_lightning.beside(tmp_path / "site")

    return write_plugin


@pytest.fixture
def install_here(install: Install, nothing_known: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install vendors for this process, until the test is over. For tests that load no software."""
    before = set(sys.modules)

    def install_here(*names: str) -> Site:
        site = install(*names)
        for folder in reversed(site.folders):
            monkeypatch.syspath_prepend(folder)
        return site

    yield install_here
    for name in set(sys.modules) - before:
        if name.startswith("northbridge_"):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process know as little as a new one: nothing declared, recorded, detected, or set."""
    monkeypatch.setattr(declared, "_declared", {})
    monkeypatch.setattr(process_record, "_entries", [])
    monkeypatch.setattr(present, "_hanging", {})
    for name in os.environ:
        if name.startswith(_OURS[:2]):
            monkeypatch.delenv(name)
    monkeypatch.setattr(given, "_words", {})
