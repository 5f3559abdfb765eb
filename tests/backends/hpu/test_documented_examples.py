"""Examples of the Habana documentation for Lightning, as they stand there but for one line: what is imported.

Each script is the documentation's, and ends after two steps because the environment says so (``PL_TRAINER_…``). The
lines that tell what came of it stand below it. The first of a kind is started as a user starts it; its like are forks
of a process that has imported Lightning, as the scripts do first.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.scripts import fork_script, run_forked, run_script, wait

from northbridge_conformance.runs.processes import reserve_port

SHORT = {
    "NORTHBRIDGE_SIMULATE": "hpu",
    "PL_TRAINER_MAX_STEPS": "2",
    "PL_TRAINER_LOGGER": "False",
    "PL_TRAINER_ENABLE_CHECKPOINTING": "False",
    "PL_TRAINER_ENABLE_PROGRESS_BAR": "False",
    "PL_TRAINER_ENABLE_MODEL_SUMMARY": "False",
}

NAMES = """
import torch
from lightning import Trainer
from northbridge_hpu import (  # was: from lightning_habana.pytorch… import, a line for each
    HPUAccelerator, HPUCheckpointIO, HPUDDPStrategy, HPUParallelStrategy, HPUPrecisionPlugin, SingleHPUStrategy
)
"""
FABRIC = """
from lightning import Fabric
from northbridge_hpu.fabric import (  # was: from lightning_habana.fabric… import, a line for each
    HPUAccelerator, HPUDDPStrategy, HPUParallelStrategy, HPUPrecision, SingleHPUStrategy
)
"""
TRAINS = """
from lightning.pytorch.demos.boring_classes import BoringModel

model = BoringModel()
{example}
trainer.fit(model)
weights = model.layer.weight.detach().cpu().double().sum().item()
told = [trainer.strategy.root_device, trainer.global_rank, trainer.world_size, type(trainer.strategy).__name__, weights]
print("trained " + "|".join(map(str, told)) + "\\n", end="", flush=True)
"""
TRAINS_FABRIC = """
import torch
{example}
fabric.launch()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model, optimizer = fabric.setup(model, optimizer)
inputs = torch.ones(2, 4, device=fabric.device) * (fabric.global_rank + 1)
with fabric.autocast():
    loss = model(inputs).sum()
fabric.backward(loss)
optimizer.step()
weights = model.weight.detach().cpu().double().sum().item()
told = [fabric.device, fabric.global_rank, fabric.world_size, type(fabric.strategy).__name__, weights]
print("trained " + "|".join(map(str, told)) + "\\n", end="", flush=True)
"""


def assert_one_training(said: str, world_size: int) -> None:
    """Assert that so many ranks trained one model, each on the card that its process calls 0."""
    strategy = "SingleDeviceStrategy" if world_size == 1 else "DDPStrategy"
    told = sorted(re.findall(r"trained (.+)\|(.+)", said))
    assert [what for what, _ in told] == [f"hpu:0|{rank}|{world_size}|{strategy}" for rank in range(world_size)]
    assert len({weights for _, weights in told}) == 1


# A server of two cards, where the documentation has eight: the same lines, in a quarter of the time
TRAINERS = [
    (2, "trainer = Trainer()"),
    (
        2,
        (
            "trainer = Trainer(accelerator=HPUAccelerator(), devices=2, strategy=HPUDDPStrategy(bucket_cap_mb=100,"
            " gradient_as_bucket_view=True, static_graph=True, find_unused_parameters=True))"
        ),
    ),
    (
        1,
        (
            'trainer = Trainer(devices=1, plugins=[HPUPrecisionPlugin(precision="bf16-mixed"), HPUCheckpointIO()],'
            " accelerator=HPUAccelerator(), strategy=SingleHPUStrategy())"
        ),
    ),
]
FABRICS = [
    (2, 'fabric = Fabric(accelerator="hpu", devices=2, strategy="hpu_parallel")'),
    (2, "fabric = Fabric(devices=2, strategy=HPUDDPStrategy(), plugins=[HPUPrecision('bf16-mixed')])"),
]


@pytest.mark.parametrize(("cards", "example"), [*TRAINERS, *FABRICS])
def test_it_trains_one_model(tmp_path: Path, cards: int, example: str) -> None:
    first, then = (FABRIC, TRAINS_FABRIC) if example.startswith("fabric") else (NAMES, TRAINS)
    (tmp_path / "train.py").write_text(first + then.format(example=example))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MASTER_", "HABANA_", "HLS_"))}
    run = run_script if example == TRAINERS[0][1] else run_forked

    ran = run(tmp_path / "train.py", folder=tmp_path, environ={**clean, **SHORT, "HABANA_VISIBLE_MODULES": "0,1"})

    assert ran.status == 0, ran.said
    assert_one_training(ran.said, cards)


def test_two_nodes_train_one_model(tmp_path: Path) -> None:
    """They are two servers of cards and one loopback address here."""
    script = tmp_path / "train.py"
    parallel = 'HPUParallelStrategy(parallel_devices=[torch.device("hpu")] * 2)'
    script.write_text(NAMES + TRAINS.format(example=f"trainer = Trainer(num_nodes=2, strategy={parallel})"))
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port()), "WORLD_SIZE": "4"}
    nodes = []
    for node in ("0", "1"):
        own = {"NODE_RANK": node, "NORTHBRIDGE_HPU_SIM_SERVER": str(tmp_path / node)}
        environ = {**os.environ, **SHORT, **meeting, **own}
        with (tmp_path / f"{node}.txt").open("wb") as output:
            process = fork_script(script, folder=tmp_path, output=output, environ=environ)
        nodes.append((process, script, tmp_path / f"{node}.txt"))
    ended = [wait(*node) for node in nodes]

    assert [each.status for each in ended] == [0, 0], "\n".join(each.said for each in ended)
    assert_one_training("\n".join(each.said for each in ended), 4)
    assert re.findall(r"trained hpu:0\|(\d)", ended[1].said) in (["2", "3"], ["3", "2"])
