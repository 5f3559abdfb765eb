"""DeepSpeed's ZeRO, with its own accelerators: the losses are torch's, and the same on every chip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.backends.together.environment import environment_on
from tests.backends.together.sharded_by_deepspeed import BATCH, CLIP, GAMMA, RATE, Model, rows
from tests.engines import needs_engines, with_engines
from tests.scripts import run_forked, run_script
from torch.utils.data.distributed import DistributedSampler

SCRIPT = Path(__file__).with_name("sharded_by_deepspeed.py")
CHIPS = ("hpu", "sdaa", "cpu_sim")  # the last resumes from the checkpoints of the others
FLOAT32 = ["stage 0", "stage 3, offloaded", "stage 3"]  # the suite has the others
OTHERS = ["stage 2, bfloat16", "stage 3, float16"]

pytestmark = [needs_engines, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two ranks have trained on each chip, on Gaudi in lazy mode: the suite has the eager one."""
    folder = tmp_path_factory.mktemp("deepspeed")
    for number, chip in enumerate(CHIPS):
        more = {"OMP_NUM_THREADS": "1", **({"PT_HPU_LAZY_MODE": "1"} if chip == "hpu" else {})}
        start = run_script if chip == "hpu" else run_forked  # one of them as a user's
        old = (f"{each}.ckpt" for each in CHIPS[:number])
        done = start(
            SCRIPT, chip, "2", *old, folder=folder, environ=with_engines({**environment_on(chip, folder), **more})
        )
        assert done.status == 0, done.said
    return folder


def found(folder: Path, chip: str, rank: int = 0) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / f"{chip}-{rank}.json").read_text())
    return read


def by_torch(ranks: int, steps: int) -> list[list[float]]:
    """Return each rank's losses as plain torch has them, with gradients averaged over the ranks."""
    model, (inputs, labels) = Model(), rows(ranks)
    (optimizer,), (rates,) = model.configure_optimizers()
    losses: list[list[float]] = [[] for _ in range(ranks)]
    kinds = ({"num_replicas": ranks, "rank": rank} for rank in range(ranks))
    sampler: Any = DistributedSampler
    orders: list[list[int]] = [list(sampler(labels, **kind)) for kind in kinds]
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(ranks):
            mine = orders[rank][step * BATCH : (step + 1) * BATCH]
            loss = model.training_step([inputs[mine], labels[mine]], step)
            torch.autograd.backward(loss / ranks)
            losses[rank].append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        rates["scheduler"].step()
    return losses


@pytest.mark.parametrize("chip", CHIPS)
def test_two_ranks_in_float32_have_torchs_losses(trained: Path, chip: str) -> None:
    for rank, losses in enumerate(by_torch(2, 4)):
        told = found(trained, chip, rank)
        assert [told[name] for name in FLOAT32] == [pytest.approx(losses, abs=1e-6)] * len(FLOAT32)


@pytest.mark.parametrize("rank", [0, 1])
def test_every_chip_has_the_same_losses(trained: Path, rank: int) -> None:
    first, *others = ({name: found(trained, chip, rank)[name] for name in FLOAT32 + OTHERS} for chip in CHIPS)

    assert others == [first, first]
    assert all(first[name] != first["stage 3"] for name in OTHERS)
    assert all(first[name] == pytest.approx(first["stage 3"], abs=0.01) for name in OTHERS)


def test_a_resumed_training_continues_on_each_chip(trained: Path) -> None:
    whole = found(trained, "cpu_sim")["two epochs"]

    for number, chip in enumerate(CHIPS):
        told = found(trained, chip)
        for writer in CHIPS[: number + 1]:  # its own checkpoint too
            assert told[f"resumed from {writer}.ckpt"] == whole[4:]


def test_the_learning_rate_is_monitored(trained: Path) -> None:
    assert found(trained, "cpu_sim")["rates"] == {
        "lr-AdamW": pytest.approx([RATE * GAMMA**step for step in range(4, 8)])
    }


def test_a_run_gives_the_process_its_settings_back(trained: Path) -> None:
    for chip, name in (("hpu", "hpu"), ("sdaa", "sdaa"), ("cpu_sim", None)):
        told = found(trained, chip)
        assert (told["deterministic"], told["fills memory"]) == (False, True)
        assert (told["accelerator"], told["plugin"]) == (name, "DeepSpeedPrecision")


def test_checkpoints_become_one_file_without_a_chip(trained: Path) -> None:
    code = (
        "import sys; from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint as whole\n"
        "import torch; torch.save([whole(each) for each in sys.argv[1:]], 'whole.pt')"
    )
    script = trained / "whole.py"
    script.write_text(code)
    environ = {**with_engines(environment_on("cpu", trained)), "DS_ACCELERATOR": "cpu"}
    # Not hpu's: in lazy mode its vendor's torch.save writes sizes as tuples, which DeepSpeed's script cannot read.
    done = run_script(script, *(f"{chip}.ckpt" for chip in CHIPS[1:]), folder=trained, environ=environ)
    assert done.status == 0, done.said
    first, *others = torch.load(trained / "whole.pt")

    assert set(first) == {name for name, _ in Model().named_parameters()}
    assert all(torch.equal(first[name], each[name]) for each in others for name in first)
    assert all(each.device.type == "cpu" for each in first.values())
    assert "zero_to_fp32.py" in {each.name for each in (trained / "hpu.ckpt").iterdir()}
