"""What a single rank cannot show of captured steps, of the watch for recompilation and of bucketed batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.backends.together.conftest import environment_on
from tests.scripts import fork_script, run_forked, wait

from northbridge_conformance.runs.processes import reserve_port

SCRIPT = Path(__file__).with_name("two_ranks.py")
LAZY = {"PT_HPU_LAZY_MODE": "1", "PT_HPU_ENABLE_LAZY_COLLECTIVES": "true"}


@pytest.mark.parametrize("accelerator", ["cpu_sim", "hpu"])
def test_two_ranks_train_as_without_the_callbacks(accelerator: str, tmp_path: Path) -> None:
    """Equal to the bit, and both ranks have the same shapes in each step."""
    environ = {**environment_on(accelerator, tmp_path), **(LAZY if accelerator == "hpu" else {})}

    ran = run_forked(SCRIPT, accelerator, folder=tmp_path, environ=environ)

    assert ran.status == 0, ran.said
    found = json.loads(next(line for line in ran.said.splitlines() if line.startswith("{")))
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
