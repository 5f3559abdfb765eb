"""Lightning's own commands and variables, with the name of a chip."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest
from tests.scripts import Ran, fork_script, wait

from northbridge.lightning.namespaces import NAMESPACES

RUN = "from lightning.fabric.cli import _main; _main()"
FABRIC = """
import os
import torch
from lightning.fabric import Fabric

fabric = Fabric()
net = torch.nn.Linear(2, 1)
net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
fabric.backward(net(torch.ones(1, 2, device=fabric.device)).sum())
optimizer.step()
os.write(1, f"rank {fabric.global_rank} of {fabric.world_size} on {fabric.device}\\n".encode())
"""
CLI = """
import os
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel

class Model(BoringModel):
    def on_train_end(self):
        strategy = type(self.trainer.strategy)
        unused = getattr(self.trainer.strategy, "_ddp_kwargs", {}).get("find_unused_parameters")
        kind = f"{strategy.__module__}.{strategy.__name__}"
        os.write(1, f"rank {self.global_rank} on {self.device} by {kind}, {unused=}\\n".encode())

if __name__ == "__main__":
    LightningCLI(Model, BoringDataModule)
"""
QUIET = ["--trainer.logger=false", "--trainer.enable_checkpointing=false", "--trainer.max_steps=2"]
OURS = "by northbridge.lightning.pytorch"


def ran(folder: Path, program: str, *arguments: str, **environ: str) -> Ran:
    script, printed = folder / "program.py", folder / "printed.txt"
    script.write_text(program)
    with printed.open("wb") as output:
        process = fork_script(
            script, *arguments, folder=folder, output=output, environ={**os.environ, **environ}, late=environ
        )
    return wait(process, script, printed)


def ranks(said: str) -> list[str]:
    return sorted(line[line.index("rank ") :] for line in said.splitlines() if "rank " in line)


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(FABRIC)
    return tmp_path


def test_fabric_run_takes_all_devices_of_the_chip(fabric: Path) -> None:
    asked = ("run", "--accelerator=cpu_sim", "--devices=auto", "--strategy=ddp", "script.py")
    run = ran(fabric, RUN, *asked, NORTHBRIDGE_CPU_SIM_DEVICES="2")

    assert run.status == 0, run.said
    assert ranks(run.said) == ["rank 0 of 2 on cpu_sim:0", "rank 1 of 2 on cpu_sim:1"]


@pytest.mark.usefixtures("chip")
@pytest.mark.parametrize("name", [name for name, each in NAMESPACES.items() if not each.is_trainer])
def test_fabric_run_counts_processes(name: str) -> None:
    count = importlib.import_module(f"{name}.cli")._get_num_processes

    assert [count("cpu_sim", devices) for devices in ("2", "auto", "-1", "0,2,3")] == [2, 8, 8, 3]


def test_fabric_run_with_a_misspelt_name_shows_the_chips(fabric: Path) -> None:
    run = ran(fabric, RUN, "run", "--accelerator=cpu_simm", "script.py")

    assert run.status == 2
    assert "'cpu_simm' is not one of 'cpu', " in run.said
    assert "'cpu_sim'" in run.said


def test_fabric_run_with_an_absent_chip_says_so(fabric: Path) -> None:
    run = ran(fabric, RUN, "run", "--accelerator=sdaa", "script.py", NORTHBRIDGE_SIMULATE="")

    assert run.status == 1
    assert ": its software 'torch_sdaa' is not installed. Fix:" in run.said


def test_the_variable_of_a_fabric_chooses_the_chip(tmp_path: Path) -> None:
    run = ran(tmp_path, FABRIC, LT_ACCELERATOR="cpu_sim", LT_DEVICES="1", LT_CLI_USED="1")

    assert ranks(run.said) == ["rank 0 of 1 on cpu_sim:0"], run.said


@pytest.mark.parametrize(
    ("strategy", "unused"),
    [
        ("auto", None),
        ("ddp_find_unused_parameters_true", True),
        ("lightning.pytorch.strategies.DDPStrategy", True),
        ("northbridge.lightning.pytorch.DDPStrategy", True),
    ],
)
def test_a_command_line_names_a_strategy_and_its_arguments(tmp_path: Path, strategy: str, unused: bool | None) -> None:
    own = [f"--trainer.strategy={strategy}"]
    if "." in strategy:
        own.append("--trainer.strategy.find_unused_parameters=true")
    run = ran(tmp_path, CLI, "fit", "--trainer.accelerator=cpu_sim", "--trainer.devices=2", *own, *QUIET)

    trained = [f"rank {rank} on cpu_sim:{rank} {OURS}.DDPStrategy, {unused=}" for rank in (0, 1)]
    assert ranks(run.said) == trained, run.said


def test_the_configuration_that_is_printed_can_be_used(tmp_path: Path) -> None:
    arguments = ["fit", "--trainer.accelerator=cpu_sim", "--trainer.devices=1", *QUIET]
    printed = ran(tmp_path, CLI, *arguments, "--print_config")
    (tmp_path / "mine.yaml").write_text(printed.said)

    run = ran(tmp_path, CLI, "fit", "--config=mine.yaml")

    assert "accelerator: cpu_sim" in printed.said
    assert ranks(run.said) == [f"rank 0 on cpu_sim:0 {OURS}.SingleDeviceStrategy, unused=None"], run.said
