"""What one rank or one chip cannot show: of callbacks, of FSDP, and of nodes with other chips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.backends.together.environment import environment_on
from tests.scripts import fork_script, run_forked, wait

from northbridge_conformance.runs.processes import reserve_port

SCRIPT = Path(__file__).with_name("two_ranks.py")
LAZY = {"PT_HPU_LAZY_MODE": "1", "PT_HPU_ENABLE_LAZY_COLLECTIVES": "true"}


def run(script: Path, *arguments: str, folder: Path, environ: dict[str, str]) -> Any:
    """Run a script, and return what it printed as JSON."""
    ran = run_forked(script, *arguments, folder=folder, environ=environ)
    assert ran.status == 0, ran.said
    return json.loads(next(line for line in ran.said.splitlines() if line.startswith(("{", '["'))))


@pytest.mark.parametrize("accelerator", ["cpu_sim", "hpu"])
def test_two_ranks_train_as_without_the_callbacks(accelerator: str, tmp_path: Path) -> None:
    """Equal to the bit, and both ranks have the same shapes in each step."""
    environ = {**environment_on(accelerator, tmp_path), **(LAZY if accelerator == "hpu" else {})}

    found = run(SCRIPT, accelerator, folder=tmp_path, environ=environ)

    assert (found["captured"], found["watched"]) == (True, True)
    assert found["graphs"] == [found["captures"]] * 2
    assert found["replays"] > 0


NODE = """
import sys
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
trainer = Trainer(accelerator=sys.argv[1], devices=1, num_nodes=2, strategy=sys.argv[2], max_steps=1, **quiet)
trainer.fit(BoringModel())
"""


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_nodes_with_other_chips_name_them(tmp_path: Path, strategy: str) -> None:
    script, place = tmp_path / "node.py", {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port())}
    script.write_text(NODE)
    nodes = []
    for rank, chip in enumerate(("hpu", "sdaa")):
        environ = {**environment_on(chip, tmp_path), **place, "NODE_RANK": str(rank)}
        with (tmp_path / f"{rank}.txt").open("wb") as out:
            nodes.append(fork_script(script, chip, strategy, folder=tmp_path, output=out, environ=environ))

    for rank, node in enumerate(nodes):
        ran = wait(node, script, tmp_path / f"{rank}.txt")
        assert ran.status == 1, ran.said
        assert "CollectiveError: rank 0 trains on hpu (hccl), rank 1 on sdaa (tccl). Fix: give the same" in ran.said
        assert "loopback address leads each node to itself (" not in ran.said


CLOSE = 1e-5


def test_every_way_learns_as_ddp(tmp_path: Path) -> None:
    """Torch's FSDP on four ranks of the simulated chip, where some ranks have no shard of a small tensor."""
    script, environ = SCRIPT.with_name("fsdp.py"), environment_on("cpu_sim", tmp_path)
    found = run(script, "cpu_sim", "4", folder=tmp_path, environ=environ)

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
def test_a_vendors_names_mean_fsdp(accelerator: str, mode: dict[str, str], tmp_path: Path) -> None:
    environ = {**environment_on(accelerator, tmp_path), **mode}
    found = run(SCRIPT.with_name("fsdp.py"), accelerator, "2", folder=tmp_path, environ=environ)

    assert max(found["distances"]) < CLOSE
    assert found["known"] == [True, True]
    assert found["way"] == ["SHARD_GRAD_OP", "torch.bfloat16"]
