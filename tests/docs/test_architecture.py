"""ARCHITECTURE.md: its rooms are those of the tree, and its walks are those that values take."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from tests.import_graph import ROOT
from tests.scripts import run_python
from tests.test_import_graph import ROOMS

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SECTIONS = dict(re.findall(r"^### (.*?),.*\n\n((?:.+\n)+)", PAGE, re.MULTILINE))
"""The lines of each walk, by what its title says before the comma."""

FOLLOW = """
import json, re, sys, types, warnings
warnings.simplefilter("ignore")
import torch
from northbridge.backend import Backend
from northbridge.discovery.installed import Plugin

def follow(run, is_followed):
    stations = []
    def note(frame, event, arg):
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if event != "call" or LAST in stations:
            return
        if not module.startswith("northbridge.") and f"{module}.{code.co_name}" != ALL_REDUCE:
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        station = f"{module}.{code.co_qualname}".replace(".<locals>", "")
        if any(is_followed(frame.f_locals.get(name)) for name in names):
            stations.append(station)
    sys.setprofile(note)
    run()
    sys.setprofile(None)
    print("stations", json.dumps(stations))

LAST = "northbridge.lightning.accelerators.accelerator.AcceleratorQuestions.get_parallel_devices"
ALL_REDUCE = "torch.distributed.distributed_c10d.all_reduce"
"""

WALKS = {
    'The string "hpu"': """
from lightning.pytorch import Trainer
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
follow(
    lambda: Trainer(accelerator="hpu", devices=1, **quiet),
    lambda value: value == "hpu" if isinstance(value, str)
    else isinstance(value, Backend) or getattr(value, "backend_name", "") == "hpu",
)
""",
    "A tensor's all-reduce": """
from lightning.fabric import Fabric
fabric = Fabric(accelerator="hpu", devices=1, strategy="ddp")
fabric.launch()
tensor = torch.ones(2, device=fabric.device)
follow(lambda: fabric.all_reduce(tensor), lambda value: isinstance(value, torch.Tensor))
""",
    "A plugin": """
import northbridge
follow(
    lambda: northbridge.get("hpu"),
    lambda value: value == "hpu" if isinstance(value, str)
    else isinstance(value, (Plugin, Backend, types.ModuleType)),
)
""",
}

PASSED_BY = re.compile(r"\.(is_|has_|may_|reject_|tell_|note|describe|_[a-z]|__|<)|\.(disables|distribution|version)$")
"""Functions that are asked about the value, or reject it, and do not hand it on."""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no qualified name")
@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_is_the_one_that_is_taken(walk: str) -> None:
    child = run_python("-c", FOLLOW + WALKS[walk], environ={**os.environ, "NORTHBRIDGE_SIMULATE": "hpu"})
    assert child.returncode == 0, child.stderr

    (line,) = re.findall("^stations (.*)$", child.stdout, re.MULTILINE)

    visited = json.loads(line)
    taken = [station for station in dict.fromkeys(visited) if not PASSED_BY.search(station)]
    assert visited.count("northbridge.discovery.declared.get") <= 1, "a name is to be resolved once"
    assert re.findall(r"^\d+\. `(.*?)`", SECTIONS[walk], re.MULTILINE) == taken


def test_its_rooms_are_those_of_the_core_in_order() -> None:
    drawn = re.findall(r"^    (\w+)(?:/|\.py) ", PAGE, re.MULTILINE)

    assert drawn[::-1] == list(ROOMS)


def test_every_file_that_it_names_exists() -> None:
    folders = [ROOT, ROOT / "core" / "northbridge", ROOT / "core" / "northbridge" / "lightning"]
    of_backends = {"__init__.py", "contract.toml", "simulated/", "build/", "module/", "faults/", "csrc/"}
    named = set(re.findall(r"`([\w/]+(?:\.py|\.toml|/))`", PAGE)) - of_backends

    assert [each for each in sorted(named) if not any(Path(folder, each).exists() for folder in folders)] == []
