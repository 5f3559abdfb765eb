"""Loading of torch_npu in each order of imports, with and without the libraries of CANN."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

SWITCH = "TORCH_DEVICE_BACKEND_AUTOLOAD"

ORDER = """
import os
{first}
from northbridge.autoload import is_armed
print(is_armed(), os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD"))
{then}
print(is_armed(), os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD"))
from lightning.pytorch import Trainer
print(Trainer(accelerator="npu", devices=[1], logger=False, enable_checkpointing=False).strategy.root_device)
"""
LOAD = 'import northbridge; northbridge.load("npu")'


@pytest.mark.parametrize(
    ("first", "then", "restores", "said"),
    [
        ("import torch", "", "1", ["True 1", "True 1"]),
        ("import torch_npu", LOAD, "1", ["False 1", "True 1"]),
        # An earlier release leaves 0, which the ranks that this process starts would inherit.
        ("import torch_npu", LOAD, "0", ["False 0", "True None"]),
        ("import torch_npu", "import northbridge.lightning", "1", ["False 1", "True 1"]),
    ],
    ids=["torch", "torch_npu", "torch_npu, earlier", "torch_npu, by import"],
)
def test_a_trainer_knows_the_name_in_each_order(
    run: Callable[..., str], vendors: dict[str, str], first: str, then: str, restores: str, said: list[str]
) -> None:
    environ = vendors | {"NORTHBRIDGE_NPU_SIM_RESTORES": restores}

    printed = run(ORDER.format(first=first, then=then), **environ).splitlines()

    assert [line for line in printed if line.startswith(("True", "False", "npu:"))] == [*said, "npu:1"]


def test_without_cann_the_list_names_the_library(vendors: dict[str, str]) -> None:
    environ = {**os.environ, **vendors, "NORTHBRIDGE_NPU_SIM_CANN": "0"}
    environ.pop("NORTHBRIDGE_SIMULATE", None)
    command = [sys.executable, "-c", "from northbridge.cli.app import main; main()", "list", "--json"]

    broken = json.loads(subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout)
    apart = json.loads(
        subprocess.run(command, env=environ | {SWITCH: "0"}, capture_output=True, text=True, check=False).stdout
    )

    assert broken["torch_problem"].startswith(
        "torch_npu 2.14.0 breaks `import torch`: ImportError: libhccl.so: cannot open shared object file"
    )
    (npu,) = (each for each in apart["backends"] if each["name"] == "npu")
    assert npu["status"] == "no software"
    assert npu["reason"] == (
        "backend 'npu': torch_npu finds no libhccl.so, a library of CANN. Fix: install CANN, and `source set_env.sh`"
        " of it"
    )
