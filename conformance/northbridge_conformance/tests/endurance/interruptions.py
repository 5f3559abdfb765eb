"""Trainings that are interrupted, and resumed."""

from __future__ import annotations

import re
from typing import ClassVar

import pytest
import torch

from northbridge_conformance.rank_programs.interruptions import EVERY_N_STEPS, INTERRUPTED, KILLED_IN, RAISED
from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.scenario import Launch, Scenario
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
from northbridge_conformance.tests.endurance.endings import End, run_to_the_end


class Preemption(NamespaceSuite):
    """A training that SIGTERM ends, as on a cluster, writes a checkpoint and resumes where it was."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    steps: Steps = always("interruptions")
    claims: tuple[str, ...] = ("resume",)
    advice = (
        "Look at what the vendor's software does with SIGTERM; and at the state of the chip's generators, which a"
        " checkpoint keeps: Device.random_state() and Device.set_random_state()."
    )

    def test_a_resumed_run_ends_with_the_weights_of_a_whole_one(self, chip: RunResult) -> None:
        for found in chip.ranks("interruptions"):
            assert found["taken up"]["weights"] == found["through"]["weights"]

    def test_it_goes_on_after_the_batch_in_which_the_signal_came(self, chip: RunResult) -> None:
        for found in chip.ranks("interruptions"):
            assert found["taken up"]["began"] == INTERRUPTED + 1


class Restarts(NamespaceSuite):
    """Under torchrun with restarts, a killed rank costs only the steps since the last checkpoint."""

    runs: Runs = in_each(TRAINERS[0])
    claims: tuple[str, ...] = ("resume",)
    advice = (
        "Look at whether a card is free as soon as the process that held it is killed; and at Collective.initialize(),"
        " which has to meet anew in each attempt, with the store that Northbridge gives it."
    )

    def test_ranks_resume_and_end_with_an_undisturbed_runs_weights(
        self, backend: str, namespace: str, environ: dict[str, str]
    ) -> None:
        require(namespace)
        require_devices(backend, 2)
        undisturbed = run(Scenario(backend, namespace, ("interruptions",), 2), environ)
        restarted = run(Scenario(backend, namespace, ("interruptions",), 2, launch="restarts"), environ)

        weights = [each["weights"] for each in undisturbed.each("interruptions", "through")]
        assert restarted.each("interruptions", "after a restart") == [
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

    def test_the_others_end_within_a_minute(self, end: End) -> None:
        (lost,) = end.findings["lost"]

        assert end.at - lost["at"] < self.LIMIT_S
        assert "went on" not in end.findings

    def test_the_process_that_started_them_learns_of_the_failure(self, end: End) -> None:
        assert all(code != 0 for code in end.codes)

    def test_no_process_outlives_them(self, end: End) -> None:
        assert end.left == []


class KilledRank(_LostRank):
    """After one rank is killed, the others end soon, and the saved checkpoint is complete."""

    step = "interruptions.killed_rank"

    @pytest.fixture(params=["script", "torchrun"])
    def launch(self, request: pytest.FixtureRequest) -> Launch:
        """The launcher of both ranks."""
        launch: Launch = request.param
        return launch

    def test_the_user_reads_which_rank_it_was(self, end: End) -> None:
        (lost,) = end.findings["lost"]

        assert lost["rank"] == 1
        assert re.search(r"rank ?:? ?1\b.{0,200}(killed|terminated|SIGKILL)", end.said, re.DOTALL), end.said

    def test_the_last_checkpoint_opens(self, end: End) -> None:
        # The checkpoint before the last, if the rank was killed while the other was still writing.
        last = torch.load(end.folder / "last.ckpt", weights_only=True)

        assert last["global_step"] in (KILLED_IN - 1, KILLED_IN)
        assert last["state_dict"]
        assert not list(end.folder.glob(".*"))


class RaisingRank(_LostRank):
    """After one rank raises an error, all ranks end soon, and the user reads the error."""

    step = "interruptions.raising_rank"

    def test_the_user_reads_the_error(self, end: End) -> None:
        assert f"LookupError: {RAISED}" in end.said
