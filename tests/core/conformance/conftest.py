"""Programs for the processes that the suite starts, and a torch that costs nothing to import."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from northbridge.conformance import processes
from northbridge.conformance.processes import Process

Begin = Callable[..., Process]


def environ_with(folder: Path) -> dict[str, str]:
    """Return the environment of a process that finds the modules of ``folder`` first."""
    before = os.environ.get("PYTHONPATH")  # an empty one would be the working folder, which differs
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *([before] if before else [])])}


@pytest.fixture
def quick_torch(tmp_path: Path) -> dict[str, str]:
    """The environment of a process whose torch, and whose torchmetrics, are empty."""
    folder = tmp_path / "quick"
    (folder / "torch").mkdir(parents=True)
    for module in ("torch/__init__", "torch/_dynamo", "torchmetrics"):
        (folder / f"{module}.py").touch()
    return environ_with(folder)


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Start or fork a process, by the function's name, that runs a program as the module ``program``."""

    def begin(how: str, program: str, environ: Mapping[str, str], *arguments: str) -> Process:
        folder = tmp_path / "folder"
        folder.mkdir(exist_ok=True)
        (folder / "program.py").write_text(program)
        with (tmp_path / f"{how}.txt").open("wb") as output:
            started: Process = getattr(processes, how)(["-m", "program", *arguments], environ, folder, output)
        return started

    return begin
