"""torch serves one accelerator a process: the second is refused before it loads, and side by side all work."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import permutations
from pathlib import Path

import pytest
from tests.scripts import run_forked, start_python

CHIPS = ("cpu_sim", "hpu", "sdaa")

LOAD = """
import json, os, sys
import torch, northbridge
first, second = {first!r}, {second!r}
northbridge.load(first)
os.environ["NORTHBRIDGE_SIMULATE"] = second  # as a user may, who wants both
before = set(sys.modules)
try:
    northbridge.load(second)
except northbridge.DeviceTypeTakenError as error:
    told = str(error)
loaded = ("torch_sdaa", "habana_frameworks.torch", "northbridge_cpu_sim.simulation.installation")
new = [name for name in set(sys.modules) - before if name.startswith(loaded)]
print(json.dumps([told, new, torch.ones(2, device=first).sum().item()]))
"""


def environ_of(chip: str, folder: Path) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if "NORTHBRIDGE_" not in name}
    return {**environ, "NORTHBRIDGE_SIMULATE": chip, "NORTHBRIDGE_HPU_SIM_SERVER": str(folder / "server")}


@pytest.mark.parametrize(("first", "second"), list(permutations(CHIPS, 2)))
def test_second_chip_is_refused_before_it_loads(first: str, second: str, tmp_path: Path) -> None:
    script = tmp_path / "load.py"
    script.write_text(LOAD.format(first=first, second=second))
    ran = run_forked(script, folder=tmp_path, environ=environ_of(first, tmp_path))

    assert ran.status == 0, ran.said
    told, new, total = json.loads(next(line for line in ran.said.splitlines() if line.startswith("[")))
    assert told == (
        f"cannot load {second!r}: torch already runs on {first!r} in this process. Fix: use another process"
    )
    assert new == []
    assert total == 2.0


SIDE_BY_SIDE = """
import sys, torch, northbridge
northbridge.load({chip!r})
held = torch.ones(3, device={chip!r})
print("ready", flush=True)
sys.stdin.readline()
print(held.device.type, held.sum().item())
"""


def test_in_processes_side_by_side_all_work(tmp_path: Path) -> None:
    children = [
        start_python("-c", SIDE_BY_SIDE.format(chip=chip), environ=environ_of(chip, tmp_path), stdin=subprocess.PIPE)
        for chip in CHIPS
    ]
    for child in children:
        assert child.stdout is not None
        while (line := child.stdout.readline()) != "ready\n":
            assert line, "it ended before it was ready"

    said = [child.communicate("go\n", timeout=100)[0] for child in children]

    assert said == [f"{chip} 3.0\n" for chip in CHIPS]
