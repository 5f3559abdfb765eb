"""Trainings of models in processes of their own: on the CPU, and on a chip."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.engines import with_engines
from tests.scripts import run_script

from northbridge_conformance.runs.processes import ONE_THREAD

CHIPS = ("cpu_sim", "hpu", "sdaa")
REFERENCE = "cpu"
APART = "vit"
"""The model whose package imports torchvision, which makes other packages fail."""

_ROOT = Path(__file__).parents[2]
_LIMIT_S = 500.0
_AT_ONCE = 2


def train_all(names: Sequence[str], accelerators: Sequence[str], folder: Path) -> dict[str, str]:
    """Train each model of ``names`` on each accelerator, two at a time; return what the failed launches said."""
    groups = [[each for each in names if (each == APART) is apart] for apart in (True, False)]
    groups = [group for group in groups if group]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        said = {
            f"{accelerator}: {', '.join(group)}": pool.submit(_train, group, accelerator, folder)
            for accelerator in accelerators
            for group in groups
        }
        return {launch: each.result() for launch, each in said.items() if each.result()}


def _train(names: Sequence[str], accelerator: str, folder: Path) -> str:
    """Return nothing, or the end of what a launch said that failed."""
    results = folder / accelerator
    results.mkdir(parents=True, exist_ok=True)
    path = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = with_engines({**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path)})
    for name in ("NORTHBRIDGE_SIMULATE", "SHORT_PROCESS"):  # diffusers needs pillow, which a short process hides
        environ.pop(name, None)
    if accelerator in CHIPS[1:]:
        environ["NORTHBRIDGE_SIMULATE"] = accelerator
    if accelerator == "hpu":
        server = results / "server"
        server.mkdir(exist_ok=True)
        environ["NORTHBRIDGE_HPU_SIM_SERVER"] = str(server)
    # Two at a time: what each prints stands in a folder of its own.
    said = results / "said" / names[0]
    said.mkdir(parents=True, exist_ok=True)
    train = Path(__file__).with_name("train.py")
    ran = run_script(train, accelerator, str(results), *names, folder=said, environ=environ, limit=_LIMIT_S)
    return "" if ran.status == 0 else f"exit code {ran.status}: {ran.said[-20000:]}"
