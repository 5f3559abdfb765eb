"""torch serves one accelerator a process: the second is refused before it loads, and side by side all work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

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


def python(code: str, folder: Path, simulated: str) -> subprocess.Popen[str]:
    environ = {name: value for name, value in os.environ.items() if "NORTHBRIDGE_" not in name}
    environ |= {"NORTHBRIDGE_SIMULATE": simulated, "NORTHBRIDGE_HPU_SIM_SERVER": str(folder / "server")}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(("first", "second"), list(permutations(CHIPS, 2)))
def test_the_second_is_refused_before_it_loads_and_both_are_named(first: str, second: str, tmp_path: Path) -> None:
    child = python(LOAD.format(first=first, second=second), tmp_path, first)
    said, complaints = child.communicate(timeout=250)

    assert child.returncode == 0, complaints
    told, new, total = json.loads(said.splitlines()[-1])
    assert told == (
        f"{second!r} was asked for, but this process already runs on {first!r}, and torch serves one accelerator per"
        f" process; start another process for {second!r}"
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
    environ = {name: value for name, value in os.environ.items() if "NORTHBRIDGE_" not in name}
    environ |= {"NORTHBRIDGE_HPU_SIM_SERVER": str(tmp_path / "server")}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", SIDE_BY_SIDE.format(chip=chip)],
            env={**environ, "NORTHBRIDGE_SIMULATE": chip},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for chip in CHIPS
    ]
    for child in children:
        assert child.stdout is not None
        while (line := child.stdout.readline()) != "ready\n":
            assert line, "it ended before it was ready"

    said = [child.communicate("go\n", timeout=100)[0] for child in children]

    assert said == [f"{chip} 3.0\n" for chip in CHIPS]
