"""Programs for the processes that the suite starts, and modules that cost nothing to import."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.forks.processes import fork
from tests.forks.server import PRELOADED

from northbridge_conformance.runs.processes import Process, start_afresh

Begin = Callable[..., Process]
OURS = PRELOADED[-1].split(".")
ROOT = Path(__file__).parents[2]


def environ_with(folder: Path) -> dict[str, str]:
    """Return the environment of a process that finds the modules of ``folder`` first, and those of the repository."""
    before = os.environ.get("PYTHONPATH")  # an empty one would be the working folder, which differs
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT), *([before] if before else [])])}


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder with empty modules in place of what a server imports."""
    folder = tmp_path / "quick"
    for module in PRELOADED:
        file = folder / f"{module.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    for package in ("torch", *("/".join(OURS[:depth]) for depth in range(1, len(OURS)))):
        (folder / package / "__init__.py").touch()
    (folder / "torch.py").unlink()
    (folder / OURS[0] / "__init__.py").write_text(
        "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)\n"  # its other modules are the real ones
    )
    return folder


@pytest.fixture
def quick_torch(modules: Path) -> dict[str, str]:
    """The environment of a process that finds what is in :func:`modules`."""
    return environ_with(modules)


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Start or fork a process, by the function's name, that runs a program: the module ``program``, or a script."""

    def begin_program(
        how: str, program: str, environ: Mapping[str, str], *arguments: str, script: bool = False, **more: object
    ) -> Process:
        folder = tmp_path / "folder"
        (folder / "scripts").mkdir(parents=True, exist_ok=True)
        for file in ("program.py", "scripts/program.py"):
            (folder / file).write_text(program)
        command = [str(folder / "scripts/program.py")] if script else ["-m", "program"]
        start: Begin = start_afresh if how == "start" else fork
        with (tmp_path / f"{how}.txt").open("wb") as output:
            started: Process = start([*command, *arguments], environ, folder, output, **more)
        return started

    return begin_program
