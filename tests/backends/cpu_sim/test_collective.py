"""``init_process_group("simccl")`` with nothing of ours imported: torch finds it by the entry point, from 2.14 on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from packaging.version import Version

from northbridge_conformance.runs.processes import reserve_port

REDUCE = """
import torch
import torch.distributed as dist
{first}
dist.init_process_group("simccl", init_method="tcp://127.0.0.1:{port}", rank=0, world_size=1)
tensor = torch.full((3,), 2.0, device="cpu_sim")
dist.all_reduce(tensor)
print(tensor.tolist())
dist.destroy_process_group()
"""
LOAD = """
from importlib.metadata import entry_points
(found,) = entry_points(group="torch.distributed.backends", name="simccl")
found.load()()
"""
POLICIES = """
import os
for thread in os.listdir("/proc/self/task"):
    print(os.sched_getscheduler(int(thread)) == os.SCHED_BATCH, int(thread) == os.getpid())
"""


def test_what_the_entry_point_names_brings_the_library(in_fresh_process: Callable[..., str]) -> None:
    said = in_fresh_process(REDUCE.format(first=LOAD, port=reserve_port()))

    assert said.splitlines()[-1] == "[2.0, 2.0, 2.0]"


def test_gloos_thread_does_not_preempt_a_rank(in_fresh_process: Callable[..., str]) -> None:
    program = REDUCE.replace("dist.destroy", "{policies}\ndist.destroy")

    said = in_fresh_process(program.format(first=LOAD, port=reserve_port(), policies=POLICIES))

    assert {line for line in said.splitlines() if "True" in line} == {"True False", "False True"}


@pytest.mark.skipif(
    Version(torch.__version__).release < (2, 14), reason="torch finds libraries by entry points from 2.14 on"
)
def test_torch_finds_the_library_by_its_name(in_fresh_process: Callable[..., str]) -> None:
    said = in_fresh_process(REDUCE.format(first="", port=reserve_port()))

    assert said.splitlines()[-1] == "[2.0, 2.0, 2.0]"
