from __future__ import annotations

import logging
import signal
from typing import Any

import pytest
from tests.core.lightning.conftest import Build

from northbridge.lightning.namespaces import NAMESPACES, Namespace

TRAINERS = [namespace for namespace in NAMESPACES.values() if namespace.is_trainer]
pytestmark = pytest.mark.parametrize("namespace", TRAINERS, indirect=True, ids=str)


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


def test_a_rank_that_trains_takes_note_and_says_so_once(trainer: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "northbridge"):
        receive_sigterm(trainer)
        receive_sigterm(trainer)

    assert [each.getMessage() for each in caplog.records] == ["rank 0 received SIGTERM and ends after this batch"]
    assert trainer.strategy.launcher.sent == [signal.SIGTERM]
    assert trainer.strategy.sigterm_noted
    assert not trainer.received_sigterm  # else this rank would leave the others alone in their next collective


def test_a_rank_that_evaluates_ends_at_its_next_batch(trainer: Any) -> None:
    trainer.validating = True

    receive_sigterm(trainer)

    assert trainer.received_sigterm


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


def test_requeued_rank_leaves_the_writing_to_all_ranks(
    trainer: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[str] = []
    monkeypatch.setattr(trainer, "save_checkpoint", saved.append)

    with caplog.at_level(logging.WARNING, "northbridge"):
        trainer._signal_connector._slurm_sigusr_handler_fn(signal.SIGUSR1, None)

    said = f"rank 0 received signal {signal.SIGUSR1:d}: the ranks write a checkpoint after this batch"
    assert [each.getMessage() for each in caplog.records] == [said]
    assert trainer.strategy.requeue_noted
    assert not saved


def test_a_run_of_lightnings_own_keeps_lightnings_handler(build: Build) -> None:
    trainer = build(accelerator="cpu", devices=2)
    trainer.strategy._launcher = Launcher()
    trainer.training = True

    receive_sigterm(trainer)

    assert trainer.received_sigterm
    assert trainer.strategy.launcher.sent == [signal.SIGTERM]


def test_a_run_of_one_rank_keeps_lightnings_handler(build: Build) -> None:
    trainer = build(accelerator="cpu_sim", devices=1)
    trainer.training = True

    receive_sigterm(trainer)

    assert trainer.received_sigterm
