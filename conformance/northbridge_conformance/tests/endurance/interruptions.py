"""Trainings that are interrupted, and resumed."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import End, RunResult, run, run_to_the_end
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.hosts import _Classifier, classifier, module_of, own_rank, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Launch, Scenario, reference, write
from northbridge_conformance.suite import (
    TRAINERS,
    NamespaceSuite,
    Runs,
    Steps,
    always,
    in_each,
    one_and_two_devices,
    require,
    require_devices,
)
from northbridge_conformance.tests.lightning.random_states import Resumable

EVERY_N_STEPS = 3
"""The number of steps between two checkpoints, in a training in which a rank is killed."""

INTERRUPTED = 5
"""The step during which the last rank gets the signal."""

KILLED_IN = 5
"""The step in which the last rank kills itself, counted from 0; a checkpoint is written after each step."""

RAISED = "no such row in the table of the last rank"
"""The error of the last rank, in that step."""


def interrupt(scenario: Scenario, folder: Path) -> None:
    """Report the final weights of each training, and the step at which each resumed training began."""
    if scenario.launch == "restarts":
        last = folder / "last.ckpt"
        is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        sent = signal.SIGKILL if is_first else None
        found = {"after a restart": _fit(scenario, folder, last if last.exists() else None, sent)}
    else:
        found = {"through": _fit(scenario, folder)}
        try:
            found["ended by SIGTERM"] = _fit(scenario, folder, sent=signal.SIGTERM)
        except SystemExit:
            found["taken up"] = _fit(scenario, folder, folder / "on_exception.ckpt")
    write(folder, "interrupt", own_rank(), found)


def _fit(
    scenario: Scenario, folder: Path, checkpoint: Path | None = None, sent: signal.Signals | None = None
) -> dict[str, Any]:
    callbacks = module_of(scenario, "callbacks")
    if scenario.launch == "restarts":
        keep = callbacks.ModelCheckpoint(dirpath=folder, every_n_train_steps=EVERY_N_STEPS, save_last=True)
    else:
        keep = callbacks.OnExceptionCheckpoint(folder)
    host = trainer(scenario, folder, enable_checkpointing=True, callbacks=[keep])
    module = classifier(scenario.namespace, "dropout", folder, "interrupt fit", _Interrupted)
    module.sent = sent
    host.fit(module, Resumable(), ckpt_path=checkpoint)
    return {"weights": fingerprint(module.state_dict()), "began": module.began}


class _Interrupted(_Classifier):
    sent: signal.Signals | None = None
    began: int | None = None

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        if self.began is None:
            self.began = self.global_step
        is_last = self.global_rank == self.trainer.world_size - 1
        if self.sent is not None and is_last and self.global_step == INTERRUPTED:
            os.kill(os.getpid(), self.sent)
        return super().training_step(batch, batch_index)


def kill_rank(scenario: Scenario, folder: Path) -> None:
    """Train with checkpoints until the last rank kills itself and reports the time.

    A rank that survives reports that the training went on to its end.
    """
    callbacks = module_of(scenario, "callbacks")
    checkpoints = callbacks.ModelCheckpoint(dirpath=folder, every_n_train_steps=1, save_last=True)
    _lose_rank(scenario, folder, _Dying, enable_checkpointing=True, callbacks=[checkpoints])


def raise_in_rank(scenario: Scenario, folder: Path) -> None:
    """Train until the last rank raises an error and reports the time."""
    _lose_rank(scenario, folder, _Raising)


def _lose_rank(scenario: Scenario, folder: Path, kind: type, **arguments: Any) -> None:
    host = trainer(scenario, folder, max_epochs=100, **arguments)
    host.fit(classifier(scenario.namespace, "mlp", folder, "interrupt lost rank fit", kind), loader())
    write(folder, "went on", host.global_rank, {})


class _Dying(_Classifier):
    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        if self.global_step == KILLED_IN and self.global_rank == self.trainer.world_size - 1:
            write(self.folder, "lost", 0, {"rank": self.global_rank, "at": time.time()})
            self.die()
        return super().training_step(batch, batch_index)

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class _Raising(_Dying):
    def die(self) -> None:
        raise LookupError(RAISED)


class Preemption(NamespaceSuite):
    """A training that SIGTERM ends, as on a cluster, writes a checkpoint and resumes where it was."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    steps: Steps = always(reference(interrupt))
    claims: tuple[str, ...] = ("resume",)
    advice = (
        "Look at what the vendor's software does with SIGTERM; and at the state of the chip's generators, which a"
        " checkpoint keeps: Device.random_state() and Device.set_random_state()."
    )

    def test_resumed_weights_equal_those_of_an_uninterrupted_run(self, chip: RunResult) -> None:
        for found in chip.ranks("interrupt"):
            assert found["taken up"]["weights"] == found["through"]["weights"]

    def test_resume_starts_after_the_interrupted_batch(self, chip: RunResult) -> None:
        for found in chip.ranks("interrupt"):
            assert found["taken up"]["began"] == INTERRUPTED + 1


class Restarts(NamespaceSuite):
    """Under torchrun with restarts, a killed rank costs only the steps since the last checkpoint."""

    runs: Runs = in_each(TRAINERS[0])
    claims: tuple[str, ...] = ("resume",)
    advice = (
        "Look at whether a card is free as soon as the process that held it is killed; and at Collective.initialize(),"
        " which has to meet anew in each attempt, with the store that Northbridge gives it."
    )

    def test_restarted_weights_equal_those_of_an_uninterrupted_run(
        self, backend: str, namespace: str, environ: dict[str, str]
    ) -> None:
        require(namespace)
        require_devices(backend, 2)
        undisturbed = run(Scenario(backend, namespace, (reference(interrupt),), 2), environ)
        restarted = run(Scenario(backend, namespace, (reference(interrupt),), 2, launch="restarts"), environ)

        weights = [each["weights"] for each in undisturbed.each("interrupt", "through")]
        assert restarted.each("interrupt", "after a restart") == [
            {"weights": each, "began": INTERRUPTED - INTERRUPTED % EVERY_N_STEPS} for each in weights
        ]


class _LostRank(NamespaceSuite):
    """After one rank is lost, the others end soon, and leave no process behind."""

    runs: Runs = in_each(TRAINERS[0], devices=(2,))
    step: ClassVar[str] = ""
    advice = (
        "Look at the communication library, which has to end with an error in the ranks whose partner is gone, and not"
        " to wait for it, also at exit; and at threads and processes of the vendor's that outlive a rank."
    )

    LIMIT_S = 60.0
    """The limit for the other ranks on a busy machine; torch's own timeout is half an hour."""

    @pytest.fixture
    def launch(self) -> Launch:
        """The launcher of both ranks."""
        return "script"

    @pytest.fixture
    def end(self, backend: str, namespace: str, environ: dict[str, str], launch: Launch) -> End:
        """The end of a run of two ranks, of which the second is lost."""
        require(namespace)
        require_devices(backend, 2)
        (end,) = run_to_the_end(Scenario(backend, namespace, (self.step,), 2, launch=launch), environ=environ)
        assert end.findings.get("lost"), f"the training never came so far:\n{end.said}"
        return end

    def test_other_ranks_end_within_a_minute(self, end: End) -> None:
        (lost,) = end.findings["lost"]

        assert end.at - lost["at"] < self.LIMIT_S
        assert "went on" not in end.findings

    def test_launching_process_exits_with_an_error(self, end: End) -> None:
        assert all(code != 0 for code in end.codes)

    def test_all_processes_end(self, end: End) -> None:
        assert end.left == []


class KilledRank(_LostRank):
    """After one rank is killed, the others end soon, and the saved checkpoint is complete."""

    step = reference(kill_rank)

    @pytest.fixture(params=["script", "torchrun"])
    def launch(self, request: pytest.FixtureRequest) -> Launch:
        """The launcher of both ranks."""
        launch: Launch = request.param
        return launch

    def test_output_names_the_killed_rank(self, end: End) -> None:
        (lost,) = end.findings["lost"]

        assert lost["rank"] == 1
        assert re.search(r"rank ?:? ?1\b.{0,200}(killed|terminated|SIGKILL)", end.said, re.DOTALL), end.said

    def test_last_checkpoint_loads(self, end: End) -> None:
        # The checkpoint before the last, if the rank was killed while the other was still writing.
        last = torch.load(end.folder / "last.ckpt", weights_only=True)

        assert last["global_step"] in (KILLED_IN - 1, KILLED_IN)
        assert last["state_dict"]
        assert not list(end.folder.glob(".*"))


class RaisingRank(_LostRank):
    """After one rank raises an error, all ranks end soon, and the user reads the error."""

    step = reference(raise_in_rank)

    def test_output_has_the_error(self, end: End) -> None:
        assert f"LookupError: {RAISED}" in end.said
