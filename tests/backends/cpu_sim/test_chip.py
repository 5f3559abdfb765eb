"""Elsewhere than on Linux, with an older torch and beside a GPU, one line says what the simulated chip needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from packaging.version import Version
from tests.core.command import command

from northbridge.discovery.installed import announced
from northbridge.discovery.simulated import GROUP
from northbridge_conformance.runs.processes import reserve_port
from northbridge_cpu_sim.chip import check_host
from northbridge_cpu_sim.errors import HostError

LINUX = "the simulated chip needs Linux, found Darwin. Fix: use a container or WSL"
NEWER = "the simulated chip needs torch 2.13 or later, found 2.4.0. Fix: pip install 'torch>=2.13'"

# What the backend's first import finds: another system, or an older torch, without what it did not have.
PRETENDED = """
import sys

class OldTorch:
    def find_spec(self, name, path, target=None):
        if name == "northbridge_cpu_sim":
            import platform, torch
            sys.meta_path.remove(self)
            {host}

sys.meta_path.insert(0, OldTorch())
"""
HOSTS = {
    "Darwin": ("platform.system = lambda: 'Darwin'", LINUX),
    "torch 2.4": (
        "torch.__version__ = '2.4.0'; sys.modules['torch.accelerator'] = None; del torch.OutOfMemoryError",
        NEWER,
    ),
}
GPU = "torch.accelerator.current_accelerator = lambda check_available=False: torch.device('cuda')"
ALONE = (
    f"torch {torch.__version__} has a 'cuda' device here, beside which it refuses {{!r}}. Fix: hide the device, or"
    f" pip install torch=={Version(torch.__version__).base_version} --index-url https://download.pytorch.org/whl/cpu"
)
TRAINER = "from lightning.pytorch import Trainer; Trainer(accelerator={!r}, devices=1, logger=False)"


@pytest.mark.parametrize("version", ["2.4.0", "2.12.1+cpu"])
def test_a_torch_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(torch, "__version__", version)

    with pytest.raises(HostError) as caught:
        check_host()

    assert str(caught.value) == NEWER.replace("2.4.0", version)


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_another_system_than_linux_is_refused(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr("platform.system", lambda: system)

    with pytest.raises(HostError) as caught:
        check_host()

    assert str(caught.value) == LINUX.replace("Darwin", system)


@pytest.mark.parametrize(
    ("host", "chip"),
    [
        ("Darwin", "cpu_sim"),
        *(("torch 2.4", chip) for chip in ("cpu_sim", *(plugin.name for plugin in announced(GROUP)))),
    ],
)
def test_trainer_ends_with_that_one_line(tmp_path: Path, host: str, chip: str) -> None:
    said = run(tmp_path, HOSTS[host][0], TRAINER.format(chip), NORTHBRIDGE_SIMULATE=chip).stderr

    # A DetectionError where the vendor's software is first asked for its cards, in a process apart.
    assert re.fullmatch(rf"northbridge\S*\.(Host|Detection)Error: {re.escape(HOSTS[host][1])}", said.splitlines()[-1])
    assert said.count("Traceback (most recent call last)") == 1


@pytest.mark.parametrize("host", HOSTS)
def test_the_list_gives_that_one_line_as_the_reason(tmp_path: Path, host: str) -> None:
    listed = run(tmp_path, HOSTS[host][0], command("list", "--json"))

    (chip,) = (each for each in json.loads(listed.stdout)["backends"] if each["name"] == "cpu_sim")
    assert (chip["status"], chip["reason"]) == ("unsupported", HOSTS[host][1])
    assert listed.returncode == 0
    assert "Traceback" not in listed.stdout + listed.stderr


@pytest.mark.parametrize("chip", ["hpu", "xpu"])
def test_key_of_its_own_is_refused_beside_a_gpu(tmp_path: Path, chip: str) -> None:
    said = run(tmp_path, GPU, TRAINER.format(chip), NORTHBRIDGE_SIMULATE=chip).stderr
    listed = run(tmp_path, GPU, command("list", "--json"), NORTHBRIDGE_SIMULATE=chip)

    assert re.fullmatch(
        rf"northbridge\S*\.(Host|Detection)Error: {re.escape(ALONE.format(chip))}", said.splitlines()[-1]
    )
    (row,) = (each for each in json.loads(listed.stdout)["backends"] if each["name"] == chip)
    assert (row["loadable"], row["reason"]) == (False, ALONE.format(chip))


def run(folder: Path, host: str, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a Python that pretends, as its children do."""

    (folder / "sitecustomize.py").write_text(PRETENDED.format(host=host))
    before = os.environ.get("PYTHONPATH")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *([before] if before else [])]), **environ}
    return subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)


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
