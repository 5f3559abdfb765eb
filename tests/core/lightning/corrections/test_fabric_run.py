"""Lightning's own commands and variables, with the name of a chip."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.scripts import run_forked, run_python

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


def ran(folder: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return run_python(*command, folder=folder, environ={**os.environ, **environ})


def lines(said: str) -> list[str]:
    return sorted(line[line.index("rank ") :] for line in said.splitlines() if "rank " in line)


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(FABRIC)
    return tmp_path


@pytest.fixture
def cli(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(CLI)
    return tmp_path


FABRIC_RUN = ("-c", "from lightning.fabric.cli import _main; _main()", "run")


def test_fabric_run_takes_the_chip_by_name(fabric: Path) -> None:
    run = ran(fabric, *FABRIC_RUN, "--accelerator=cpu_sim", "--devices=2", "--strategy=ddp", "script.py")

    assert run.returncode == 0, run.stderr
    assert lines(run.stdout) == ["rank 0 of 2 on cpu_sim:0", "rank 1 of 2 on cpu_sim:1"]


def test_fabric_run_takes_all_of_the_chips_devices_for_auto(fabric: Path) -> None:
    run = ran(
        fabric,
        *FABRIC_RUN,
        "--accelerator=cpu_sim",
        "--devices=auto",
        "--strategy=ddp",
        "script.py",
        NORTHBRIDGE_CPU_SIM_DEVICES="3",
    )

    assert [line.partition(" on")[0] for line in lines(run.stdout)] == ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"]


def test_fabric_run_with_a_misspelt_name_shows_the_chips(fabric: Path) -> None:
    run = ran(fabric, *FABRIC_RUN, "--accelerator=cpu_simm", "script.py")

    assert run.returncode == 2
    assert "'cpu_simm' is not one of 'cpu', " in run.stderr
    assert "'cpu_sim'" in run.stderr


def test_fabric_run_with_an_absent_chip_says_so(fabric: Path) -> None:
    run = ran(fabric, *FABRIC_RUN, "--accelerator=sdaa", "script.py", NORTHBRIDGE_SIMULATE="")

    assert run.returncode == 1
    assert ": its software 'torch_sdaa' is not installed. Fix:" in run.stderr


def test_the_variable_of_a_fabric_chooses_the_chip(fabric: Path) -> None:
    run = ran(fabric, "script.py", LT_ACCELERATOR="cpu_sim", LT_DEVICES="1", LT_CLI_USED="1")

    assert lines(run.stdout) == ["rank 0 of 1 on cpu_sim:0"], run.stderr


def test_a_command_line_trains_on_several_devices(cli: Path) -> None:
    run = ran(cli, "script.py", "fit", "--trainer.accelerator=cpu_sim", "--trainer.devices=2", *QUIET)

    assert lines(run.stdout) == [f"rank {rank} on cpu_sim:{rank} {OURS}.DDPStrategy, unused=None" for rank in (0, 1)]


@pytest.mark.parametrize(
    "strategy",
    [
        "ddp_find_unused_parameters_true",
        "lightning.pytorch.strategies.DDPStrategy",
        "northbridge.lightning.pytorch.DDPStrategy",
    ],
)
def test_a_command_line_names_a_strategy_and_its_arguments(cli: Path, strategy: str) -> None:
    own = [f"--trainer.strategy={strategy}"]
    if "." in strategy:
        own.append("--trainer.strategy.find_unused_parameters=true")
    command = ["fit", "--trainer.accelerator=cpu_sim", "--trainer.devices=2", *own, *QUIET]
    run = run_forked(cli / "script.py", *command, folder=cli)

    trained = [f"rank {rank} on cpu_sim:{rank} {OURS}.DDPStrategy, unused=True" for rank in (0, 1)]
    assert lines(run.said) == trained, run.said


def test_the_configuration_that_is_printed_can_be_used(cli: Path) -> None:
    arguments = ["fit", "--trainer.accelerator=cpu_sim", "--trainer.devices=1", *QUIET]
    printed = ran(cli, "script.py", *arguments, "--print_config")
    (cli / "mine.yaml").write_text(printed.stdout)

    run = ran(cli, "script.py", "fit", "--config=mine.yaml")

    assert "accelerator: cpu_sim" in printed.stdout
    assert lines(run.stdout) == [f"rank 0 on cpu_sim:0 {OURS}.SingleDeviceStrategy, unused=None"], run.stderr
