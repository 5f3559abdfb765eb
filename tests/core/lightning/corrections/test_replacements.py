"""Corrected functions of Lightning whose subject has no other test file."""

from __future__ import annotations

import importlib
import logging
import signal
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, of_trainers

import northbridge
from northbridge.backend import Backend
from northbridge.device import Device
from northbridge.discovery.declared import load
from northbridge.lightning.accelerators import accelerator
from northbridge.lightning.namespaces import Namespace


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
    asked: list[tuple[bool, bool]] = []

    def any_rank(strategy: Any, decision: bool, **kwargs: bool) -> bool:
        asked.append((decision, kwargs["all"]))
        return noted

    monkeypatch.setattr(type(trainer.strategy), "reduce_boolean_decision", any_rank)
    ends = namespace.module("utilities.exceptions").SIGTERMException
    agree = trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor

    if noted:
        with pytest.raises(ends):
            agree()
    else:
        agree()

    assert trainer.received_sigterm is noted
    assert asked == [(False, False)]


@of_trainers
def test_a_run_of_lightnings_own_keeps_lightnings_handler(build: Build) -> None:
    trainer = build(accelerator="cpu", devices=2)
    trainer.strategy._launcher = Launcher()
    trainer.training = True

    receive_sigterm(trainer)

    assert trainer.received_sigterm
    assert trainer.strategy.launcher.sent == [signal.SIGTERM]


@of_trainers
def test_a_run_of_one_rank_keeps_lightnings_handler(build: Build) -> None:
    trainer = build(accelerator="cpu_sim", devices=1)
    trainer.training = True

    receive_sigterm(trainer)

    assert trainer.received_sigterm
