"""Scripts on simulated NPUs, and beside a package that passes for the vendor's: imports, a missing CANN, trainings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

STAND_IN = """
from northbridge_npu.simulated.vendor_import import STAND_INS
row = STAND_INS[__name__]
globals().update(row() if callable(row) else row)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Run a script, with more variables, and return what it printed; it must end well."""

    def run_script(script: str, **environ: str) -> str:
        file = tmp_path / "script.py"
        file.write_text(dedent(script))
        # This process may have imported the stand-in, which writes the switch.
        given = {name: text for name, text in os.environ.items() if not name.startswith(("NORTHBRIDGE_", SWITCH))}
        ended = subprocess.run(
            [sys.executable, file], env={**given, **environ}, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run_script


@pytest.fixture
def vendors(tmp_path: Path) -> dict[str, str]:
    """Let the stand-in pass for an installed torch_npu, with its entry point; the variables that show it."""
    (tmp_path / "torch_npu" / "npu").mkdir(parents=True)
    for module in ("__init__", "npu/__init__", "npu/amp"):
        (tmp_path / "torch_npu" / f"{module}.py").write_text(STAND_IN)
    metadata = tmp_path / "torch_npu-2.14.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.14.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return {"PYTHONPATH": str(tmp_path)}


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
        # An earlier release leaves 0, which the ranks that this process starts would inherit.
        ("import torch_npu", LOAD, "0", ["False 0", "True None"]),
        ("import torch_npu", "import northbridge.lightning", "1", ["False 1", "True 1"]),
    ],
    ids=["torch", "torch_npu, earlier", "torch_npu"],
)
def test_a_trainer_knows_the_name_in_each_order(
    run: Callable[..., str], vendors: dict[str, str], first: str, then: str, restores: str, said: list[str]
) -> None:
    environ = vendors | {"NORTHBRIDGE_NPU_SIM_RESTORES": restores}

    printed = run(ORDER.format(first=first, then=then), **environ).splitlines()

    assert [line for line in printed if line.startswith(("True", "False", "npu:"))] == [*said, "npu:1"]


WITHOUT_CANN = """
import torch
import northbridge
try:
    northbridge.load("npu")
except northbridge.SoftwareMissingError as error:
    print(error)
"""


def test_without_cann_a_run_names_the_library(run: Callable[..., str], vendors: dict[str, str]) -> None:
    said = run(WITHOUT_CANN, **vendors, **{SWITCH: "0", "NORTHBRIDGE_NPU_SIM_CANN": "0"})

    assert said == (
        "backend 'npu': torch_npu finds no libhccl.so, a library of CANN. Fix: install CANN, and `source set_env.sh`"
        " of it\n"
    )


TWO_RANKS = """
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.strategies import DDPStrategy


class Overflowing(BoringModel):
    def backward(self, loss):
        super().backward(loss)
        if self.trainer.global_rank == 1:
            self.layer.weight.grad.fill_(float("inf"))

    def on_train_end(self):
        scaler = self.trainer.precision_plugin.scaler
        config = torch.distributed.get_backend_config()
        said = [type(scaler).__module__, config, scaler.get_scale(), self.trainer.strategy.root_device]
        # In one write: the ranks share a pipe.
        print(f"rank {self.trainer.global_rank}: {' '.join(map(str, said))}\\n", end="", flush=True)


quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
strategy = DDPStrategy(process_group_backend="lccl")
trainer = Trainer(
    accelerator="npu", devices=2, strategy=strategy, precision="16-mixed", max_epochs=1, limit_train_batches=1,
    limit_val_batches=0, **quiet,
)
trainer.fit(Overflowing())
"""


def test_an_overflow_of_one_rank_is_all_ranks_over_lccl(run: Callable[..., str]) -> None:
    """Torch's scaler would halve the scale of one rank alone, and the ranks' weights would come apart."""
    said = run(TWO_RANKS, NORTHBRIDGE_SIMULATE="npu")

    assert sorted(line for line in said.splitlines() if line.startswith("rank ")) == [
        f"rank {rank}: northbridge_npu.simulated.devices npu:lccl 32768.0 npu:{rank}" for rank in (0, 1)
    ]


ONE_PROCESS = """
import torch
import northbridge

backend = northbridge.load("npu")
graph, total = backend.acceleration.graph(), torch.ones(2, device="npu")
stream = torch.npu.Stream()
with torch.npu.stream(stream):
    graph.capture_begin()
    total.mul_(2)
    graph.capture_end()
    graph.replay()
    graph.replay()
stream.synchronize()
print(type(graph).__name__, total.tolist())
graph.reset()
print(backend.acceleration.profiler_activity() is torch.profiler.ProfilerActivity.PrivateUse1)
print(backend.acceleration.deepspeed_accelerator, backend.bridge.compile_backend)
print(backend.device.autocast_dtypes(), torch.npu.is_initialized())
print(backend.bridge.count_cards([0, 1], total=2), backend.present_capabilities().bfloat16.reason)
"""


def test_graphs_profiler_and_cards_are_the_vendors(run: Callable[..., str]) -> None:
    said = run(
        ONE_PROCESS,
        NORTHBRIDGE_SIMULATE="npu",
        NORTHBRIDGE_NPU_SIM_CARD="910ProB",
        ASCEND_RT_VISIBLE_DEVICES="2,3",
    ).splitlines()

    assert said[:3] == ["NPUGraph [8.0, 8.0]", "True", "npu npugraph_ex"]
    assert said[4] == "2 a 910ProB computes in float16 and float32 alone; 910B1 and later have it"


FIRST_LINES = """
import torch
import torch_npu

torch.npu.set_compile_mode(jit_compile=False)
torch.npu.config.allow_internal_format = False
print(torch.npu.matmul.allow_hf32, torch.npu.conv.allow_hf32)
torch.npu.matmul.allow_hf32, torch.npu.conv.allow_hf32 = True, False
print(torch.npu.matmul.allow_hf32, torch.npu.conv.allow_hf32)
for wrong in ("torch.npu.conv.allow_hf32 = 1", "from torch_npu.contrib import transfer_to_npu"):
    try:
        exec(wrong)
    except (TypeError, ModuleNotFoundError) as error:
        print(error)

import northbridge.lightning
from lightning.fabric import Fabric

try:
    Fabric(accelerator="npu", devices=1, precision="64-true").launch()
except northbridge.UnsupportedError as error:
    print(error.capability, error)
given = torch.ones(2, device="npu")
print([each.dtype for each in (given.double(), given.to("npu", torch.float64), given.to("cpu", torch.float64))])
"""


def test_first_lines_of_public_scripts(run: Callable[..., str]) -> None:
    """Switches are accepted, CUDA's names say what to write, and a cast to float64 alone gives float32."""
    *switches, without, double, casts = run(FIRST_LINES, NORTHBRIDGE_SIMULATE="npu").splitlines()

    assert switches == ["False True", "True False", "allow_hf32 must be a bool, but got int"]
    assert without == (
        "the simulated Ascend NPU has no torch_npu.contrib; a real one may have it. Fix: without transfer_to_npu,"
        ' write torch.npu and device "npu"'
    )
    assert double.startswith("float64 precision='64-true': a cast to torch.float64 on 'npu' gives torch.float32.")
    assert casts == "[torch.float32, torch.float64, torch.float64]"
