"""One script in a process of its own for each chip: torch serves one accelerator a process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.scripts import run_forked

from northbridge_conformance.runs.processes import tells_of_a_launcher

SCRIPT = Path(__file__).with_name("train.py")
ACCELERATORS = ("cpu", "cpu_sim", "hpu", "sdaa")

Train = Callable[..., None]


def environment_on(accelerator: str, folder: Path) -> dict[str, str]:
    """Return the environment of a user of ``accelerator``, which is simulated where it is a vendor's."""
    ours = ("NORTHBRIDGE_", "_NORTHBRIDGE_")
    environ = {
        name: value for name, value in os.environ.items() if not tells_of_a_launcher(name) and not name.startswith(ours)
    }
    environ |= {"NORTHBRIDGE_HPU_SIM_SERVER": str(folder / "server")}
    return {**environ, "NORTHBRIDGE_SIMULATE": accelerator} if accelerator in ("hpu", "sdaa") else environ


@pytest.fixture(scope="session")
def train() -> Train:
    """Run the script in a folder, on an accelerator that is simulated where it is a vendor's."""

    def train(folder: Path, accelerator: str, *arguments: str) -> None:
        environ = environment_on(accelerator, folder)
        done = run_forked(SCRIPT, accelerator, *arguments, folder=folder, environ=environ)
        assert done.status == 0, done.said
        assert f"is written from {accelerator}" in done.said, done.said

    return train


@pytest.fixture(scope="session")
def halves(tmp_path_factory: pytest.TempPathFactory, train: Train) -> Path:
    """A folder with ``cpu.ckpt`` and so on, two epochs on one device, and ``half-cpu.ckpt``, the first of them."""
    folder = tmp_path_factory.mktemp("halves")
    for accelerator in ACCELERATORS:
        train(folder, accelerator, f"{accelerator}.ckpt")
    return folder


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Return where two checkpoints, or parts of them, are not equal bit for bit."""
    if isinstance(theirs, torch.Tensor):
        same = isinstance(ours, torch.Tensor) and ours.dtype == theirs.dtype and torch.equal(ours, theirs)
        return [] if same else [where]
    if isinstance(theirs, dict):
        if not isinstance(ours, dict) or ours.keys() != theirs.keys():
            return [where]
        return [found for key in theirs for found in differences(ours[key], theirs[key], f"{where}/{key}")]
    if isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs):
            return [where]
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [found for number, pair in pairs for found in differences(*pair, f"{where}/{number}")]
    return [] if ours == theirs else [where]
