"""What `northbridge list` and the doctor say where torch was built for something else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
SAID = (
    ": this torch was built without Intel's GPUs. Fix: pip install torch --index-url"
    " https://download.pytorch.org/whl/xpu, or set NORTHBRIDGE_SIMULATE=xpu"
)

pytestmark = pytest.mark.skipif(torch.xpu._is_compiled(), reason="this torch was built for Intel's GPUs")


@pytest.mark.parametrize("command", [["list", "--json"], ["doctor", "xpu", "--json"]], ids=["list", "doctor"])
def test_they_say_what_a_trainer_says(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTHBRIDGE_DISABLE", "cpu_sim,hpu,npu,sdaa")  # no other backend is asked

    done = subprocess.run(
        [NORTHBRIDGE, *command], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )

    found: dict[str, Any] = json.loads(done.stdout)
    rows = [each.get("states", each) for each in found["backends"]]
    (row,) = [each for each in rows if each["name"] == "xpu"]
    assert (row["status"], row["devices"], row["distribution"]) == ("no software", 0, "northbridge-xpu")
    assert row["reason"].endswith(SAID)
