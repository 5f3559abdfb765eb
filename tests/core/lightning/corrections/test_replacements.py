"""Corrected functions of Lightning whose subject has no other test file."""

from __future__ import annotations

import importlib
import logging
import os
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from tests.core.lightning.conftest import Build, of_trainers
from tests.scripts import Ran, fork_script, wait

import northbridge
from northbridge.backend import Backend
from northbridge.device import Device
from northbridge.discovery.declared import load
from northbridge.lightning.accelerators import accelerator
from northbridge.lightning.namespaces import NAMESPACES, Namespace


class TestCompleteDevice:
    @pytest.mark.parametrize("asked", ["cpu_sim", "cpu_sim:1", "cpu"])
    def test_a_moved_module_says_where_its_tensors_are(self, trainer_namespace: Namespace, asked: str) -> None:
        northbridge.load("cpu_sim")
        module: Any = importlib.import_module(f"{trainer_namespace.name}.demos.boring_classes").BoringModel()

        module.to(asked)

        assert module.device == module.layer.weight.device


class TestStartGroup:
    @pytest.mark.parametrize("strategy", ["ddp", "fsdp", "model_parallel"])
    @pytest.mark.parametrize("device", [None, torch.device("cuda", 0)])
    def test_device_id_is_passed_if_there_is_one(
        self, namespace: Namespace, strategy: str, device: torch.device | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[dict[str, Any]] = []
        monkeypatch.setattr(torch.distributed, "init_process_group", lambda _name, **options: asked.append(options))
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")  # Lightning sets both again
        monkeypatch.setenv("MASTER_PORT", "12345")
        environment: Any = namespace.fabric_module("plugins.environments").LightningEnvironment()

        namespace.module(f"strategies.{strategy}")._init_dist_connection(environment, "gloo", 0, 2, device_id=device)

        assert asked == [{"rank": 0, "world_size": 2, **({} if device is None else {"device_id": device})}]


class Card(Device):
    """A chip that tells of full memory in words of its own."""

    type = "cpu_sim"
    out_of_memory = ("no room on the card",)
    emptied = 0

    def empty_cache(self) -> None:
        self.emptied += 1


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A chip that this process holds, and no other."""
    monkeypatch.setattr(accelerator, "_held", {})
    backend = replace(load("cpu_sim"), device=Card())
    accelerator.hold(backend)
    return backend


@pytest.fixture(params=["utilities.memory", "tuner.batch_size_scaling"])
def lightnings(request: pytest.FixtureRequest, trainer_namespace: Namespace) -> Any:
    """Where Lightning knows the functions: where they are, and where its search for a batch size has them from."""
    return trainer_namespace.module(request.param)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (torch.OutOfMemoryError("acme:0 is full"), True),
        (RuntimeError("FATAL: no room on the card: 3 GB"), True),
        (RuntimeError("CUDA out of memory"), True),
        (RuntimeError("the shapes do not fit"), False),
        (ValueError("no room on the card"), False),
    ],
    ids=["torch's error", "the vendor's words", "CUDA's words", "another error", "another kind of error"],
)
def test_lightning_recognizes_a_full_chip(lightnings: Any, error: BaseException, is_full: bool) -> None:
    assert lightnings.is_oom_error(error) is is_full


def test_nothing_changes_in_a_process_that_holds_no_chip(lightnings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "_held", {})

    assert not lightnings.is_oom_error(torch.OutOfMemoryError("acme:0 is full"))


def test_lightning_empties_the_chips_cache(lightnings: Any, backend: Backend) -> None:
    lightnings.garbage_collection_cuda()

    assert isinstance(backend.device, Card)
    assert backend.device.emptied == 1


class Launcher:
    """Hears what the ranks that were started as scripts would."""

    is_interactive_compatible = False

    def __init__(self) -> None:
        self.sent: list[int] = []

    def kill(self, signum: int) -> None:
        self.sent.append(signum)


@pytest.fixture
def trainer(build: Build) -> Any:
    """Rank 0 of two, in the middle of its training."""
    trainer = build(accelerator="cpu_sim", devices=2)
    trainer.strategy._launcher = Launcher()
    trainer.training = True
    return trainer


def receive_sigterm(trainer: Any) -> None:
    trainer._signal_connector._sigterm_notifier_fn(signal.SIGTERM, None)


@of_trainers
def test_a_rank_that_trains_takes_note_and_says_so_once(trainer: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "northbridge"):
        receive_sigterm(trainer)
        receive_sigterm(trainer)

    assert [each.getMessage() for each in caplog.records] == ["rank 0 received SIGTERM and ends after this batch"]
    assert trainer.strategy.launcher.sent == [signal.SIGTERM]
    assert trainer.strategy.sigterm_noted
    assert not trainer.received_sigterm  # else this rank would leave the others alone in their next collective


@of_trainers
def test_a_rank_that_evaluates_ends_at_its_next_batch(trainer: Any) -> None:
    trainer.validating = True

    receive_sigterm(trainer)

    assert trainer.received_sigterm


@of_trainers
@pytest.mark.parametrize("noted", [True, False])
def test_ranks_end_between_batches_if_one_had_a_signal(
    namespace: Namespace, trainer: Any, noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Mock(return_value=noted)
    monkeypatch.setattr(type(trainer.strategy), "reduce_boolean_decision", asked)
    ends = namespace.module("utilities.exceptions").SIGTERMException

    with pytest.raises(ends) if noted else nullcontext():
        trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor()

    assert trainer.received_sigterm is noted
    asked.assert_called_once_with(False, all=False)


@of_trainers
@pytest.mark.parametrize(("accelerator", "devices"), [("cpu", 2), ("cpu_sim", 1)])
def test_other_runs_keep_lightnings_handler(build: Build, accelerator: str, devices: int) -> None:
    """Those of Lightning's own, and those of one rank."""
    trainer = build(accelerator=accelerator, devices=devices)
    trainer.strategy._launcher = Launcher()
    trainer.training = True

    receive_sigterm(trainer)

    assert trainer.received_sigterm
    assert trainer.strategy.launcher.sent == [signal.SIGTERM]


# --- Lightning's own commands and variables, with the name of a chip

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


def test_the_variable_of_a_fabric_chooses_the_chip(tmp_path: Path) -> None:
    run = ran(tmp_path, FABRIC, LT_ACCELERATOR="cpu_sim", LT_DEVICES="1", LT_CLI_USED="1")

    assert ranks(run.said) == ["rank 0 of 1 on cpu_sim:0"], run.said


@pytest.mark.parametrize(
    ("strategy", "unused"),
    [
        ("auto", None),
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
