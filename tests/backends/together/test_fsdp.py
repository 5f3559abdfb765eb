"""Torch's FSDP by its name: each way of it learns as DDP does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.backends.together.conftest import environment_on
from tests.scripts import run_forked

SCRIPT = Path(__file__).with_name("fsdp.py")
CLOSE = 1e-5


def run(accelerator: str, devices: int, folder: Path, **more: str) -> dict[str, Any]:
    environ = {**environment_on(accelerator, folder), **more}
    ran = run_forked(SCRIPT, accelerator, str(devices), folder=folder, environ=environ)
    assert ran.status == 0, ran.said
    found: dict[str, Any] = json.loads(next(line for line in ran.said.splitlines() if line.startswith("{")))
    return found


def test_every_way_learns_as_ddp(tmp_path: Path) -> None:
    """Four ranks of the simulated chip, where some ranks have no shard of a small tensor."""
    found = run("cpu_sim", 4, tmp_path)

    ways = found["ways"]
    assert len(ways) == 6
    assert {way: far for way, far in ways.items() if far > CLOSE} == {}
    assert found["mixed"] == {
        "bf16-mixed": [["torch.bfloat16"], "FSDPPrecision", "cpu_sim", None, True],
        "16-mixed": [["torch.float16"], "FSDPPrecision", "cpu_sim", ["ShardedGradScaler", "cpu_sim", True], True],
        "bf16-true": [["torch.bfloat16"], "FSDPPrecision", "cpu_sim", None, True],
    }
    assert found["meta"] == [6, True]
    assert found["blocks"] < CLOSE
    assert found["not averaged"] == (
        "ArgumentsError: the ranks would not average the gradient of 'net.1.0.weight'. Fix: fully_shard(model), or"
        " freeze it"
    )
    (said,) = found["not split"]
    assert said == (
        "no DTensor uses tensor_parallel_size=2: do those ranks compute the same? Fix: data_parallel_size=4,"
        " tensor_parallel_size=1"
    )
    assert found["not sharded"] == (
        "ArgumentsError: data_parallel_size=1 shards nothing. Fix: data_parallel_size=4, tensor_parallel_size=1"
    )


@pytest.mark.parametrize(("accelerator", "mode"), [("hpu", {"PT_HPU_LAZY_MODE": "1"}), ("sdaa", {})])
def test_a_vendors_names_mean_it(accelerator: str, mode: dict[str, str], tmp_path: Path) -> None:
    found = run(accelerator, 2, tmp_path, **mode)

    is_theirs, way, by_name, by_alias = found["names"]["name"]
    assert (is_theirs, way) == (True, "SHARD_GRAD_OP")
    assert max(by_name, by_alias, found["sharded"]) < CLOSE
    assert found["names"]["precision"] == [True, "bf16-mixed", ["torch.bfloat16"]]
