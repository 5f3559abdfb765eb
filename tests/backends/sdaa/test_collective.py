"""TCCL between two ranks: what it reduces, what it refuses, and what it is not given; and a training over it."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.backends.simulation.processes import OnRanks
from tests.scripts import run_forked

import northbridge

REDUCE = """
import json
rank = dist.get_rank()
def tried(act):
    tensor = torch.tensor([2.0 + rank], device="sdaa")
    try:
        return act(tensor).item()
    except Exception as error:
        return str(error).splitlines()[0]

def broadcast(tensor):
    dist.broadcast(tensor, 0)
    return tensor

print(json.dumps({
    "the library": [tried(lambda tensor: (dist.all_reduce(tensor, getattr(dist.ReduceOp, op)), tensor)[1])
                    for op in ("SUM", "PRODUCT", "MIN", "MAX", "AVG")],
    "carries": [tried(lambda tensor: broadcast(tensor.to(getattr(torch, dtype)))) for dtype in
                ("float16", "bfloat16", "int64", "uint8", "bool", "int16")],
}))
"""


@pytest.mark.shows("tccl reduces by sum, product, min, max", "tccl dtypes")
def test_the_library_reduces_and_carries_what_the_source_says(on_ranks: OnRanks) -> None:
    said = [json.loads(each.splitlines()[-1]) for each in on_ranks(REDUCE)]

    assert said[0] == said[1]
    assert said[0] == {
        "the library": [5.0, 6.0, 2.0, 3.0, "TCCL has no such reduction: avg"],
        # The dtypes that no map of the vendor's has are refused.
        "carries": [2.0, 2.0, 2, 2, *(f"TCCL has no such data type: {dtype}" for dtype in ("bool", "int16"))],
    }


@pytest.mark.shows("tccl takes no device_id and no options")
def test_it_is_given_a_timeout_and_no_device_or_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(dist, "init_process_group", lambda *args, **kwargs: asked.update(kwargs, name=args[0]))

    northbridge.get("sdaa").require_collective().initialize(
        rank=0, world_size=1, timeout=timedelta(minutes=2), device=torch.device("cpu")
    )

    assert asked == {"name": "tccl", "rank": 0, "world_size": 1, "timeout": timedelta(minutes=2)}


@pytest.mark.usefixtures("sdaa")
@pytest.mark.shows("the name tccl belongs to other libraries too", "tccl serves sdaa tensors alone")
def test_the_chip_is_not_inferred_from_the_librarys_name() -> None:
    # torch and other vendors have a "tccl" too: only the type of device counts.
    store = dist.HashStore()  # type: ignore[attr-defined]  # torch documents it, and does not export it
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(northbridge.CollectiveError, match="'sdaa' needs 'tccl', but"):
            northbridge.get("sdaa").require_collective().assert_carries(torch.device("sdaa"))
    finally:
        dist.destroy_process_group()


# A training: the order of a rank's start


ORDER = """
import torch, torch.distributed as dist
import northbridge
northbridge.load("sdaa")
told = []
set_device, init_process_group = torch.sdaa.set_device, dist.init_process_group
torch.sdaa.set_device = lambda device: (told.append(f"set_device({device})"), set_device(device))
dist.init_process_group = lambda *args, **kwargs: (told.append(args[0]), init_process_group(*args, **kwargs))

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = Trainer(accelerator="sdaa", devices=[3, 5], strategy="ddp", max_steps=1, **quiet)
trainer.fit(BoringModel())
print(f"rank {trainer.global_rank}: {' then '.join(told)}\\n", end="", flush=True)
"""


@pytest.mark.shows("torch.distributed.init_process_group")
def test_each_rank_sets_its_device_before_the_group_starts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ORDER)

    ran = run_forked(tmp_path / "train.py", folder=tmp_path, environ={**os.environ, "NORTHBRIDGE_SIMULATE": "sdaa"})

    assert ran.status == 0, ran.said
    assert sorted(line for line in ran.said.splitlines() if line.startswith("rank ")) == [
        "rank 0: set_device(3) then tccl",
        "rank 1: set_device(5) then tccl",
    ]
