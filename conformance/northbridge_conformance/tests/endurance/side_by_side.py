"""Two jobs on one machine at the same time."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import End, new_folder, run, run_to_the_end
from northbridge_conformance.runs.hosts import _Classifier, classifier, facts, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, reference, write
from northbridge_conformance.suite import TRAINERS, NamespaceSuite, Runs, in_each, require, require_devices

MODEL = "convnet"

_BATCHES = 40
_LIMIT_S = 120.0
_FAILED = "failed"


def train_side_by_side(scenario: Scenario, folder: Path) -> None:
    """Train; report the weights and when the training began and ended. With another job, wait for it first.

    ``scenario.resume`` is the folder in which the two jobs meet, or empty for a job that runs alone.
    """
    host = trainer(scenario, folder)
    module = classifier(scenario.namespace, MODEL, folder, "train_side_by_side", _Accompanying)
    module.meeting = meeting = Path(scenario.resume) if scenario.resume else None
    try:
        host.fit(module, loader(8 * _BATCHES * host.world_size, shuffle=False))
    except BaseException:
        if meeting is not None:
            (meeting / _FAILED).touch()
        raise


def _meet(meeting: Path, name: str) -> None:
    """Wait until both jobs are here; raise if the other job failed before."""
    (meeting / name).touch()
    until = time.monotonic() + _LIMIT_S
    while len(here := [each.name for each in meeting.iterdir()]) < 2 or _FAILED in here:
        if _FAILED in here:
            raise RuntimeError("the other job failed before it trained")
        if time.monotonic() > until:
            raise TimeoutError(f"the other job did not begin to train within {_LIMIT_S:g} s")
        time.sleep(0.01)


class _Accompanying(_Classifier):
    meeting: Path | None = None

    def on_train_start(self) -> None:
        if self.meeting is not None:
            _meet(self.meeting, self.folder.name)
        self.began = time.time()

    def on_train_end(self) -> None:
        self.trainer.strategy.backend.device.synchronize()
        found = {"began": self.began, "ended": time.time(), **facts(self, self.trainer.strategy)}
        write(self.folder, self.topic, self.global_rank, found)


class SideBySide(NamespaceSuite):
    """Two jobs that train at the same time, on separate devices, each end as a job that runs alone.

    With two devices each, the ranks of each job meet as well, and must not meet those of the other.
    """

    runs: Runs = in_each(TRAINERS[0], devices=(1, 2))
    advice = (
        "Look at what processes of one machine share: files and ports of the vendor's software, a MASTER_PORT that its"
        " import writes (northbridge.keep_environment() takes it back), and cards that it takes before it is told"
        " which one."
    )

    @pytest.fixture
    def jobs(self, backend: str, namespace: str, devices: int, environ: dict[str, str]) -> list[Scenario]:
        """The two jobs, which wait for each other before they train."""
        require(namespace)
        require_devices(backend, 2 * devices)
        there = _meeting(backend, namespace, devices, tuple(sorted(environ.items())))
        return [
            Scenario(backend, namespace, (reference(train_side_by_side),), tuple(chosen), resume=str(there))
            for chosen in (range(devices), range(devices, 2 * devices))
        ]

    @pytest.fixture
    def ends(self, jobs: list[Scenario], environ: dict[str, str]) -> tuple[End, ...]:
        """The ends of both jobs."""
        ends = run_to_the_end(*jobs, environ=environ)
        for end in ends:
            assert not any(end.codes), end.said[-12000:]
        return ends

    def test_jobs_train_at_the_same_time(self, ends: tuple[End, ...]) -> None:
        found = [rank for end in ends for rank in end.findings["train_side_by_side"]]

        assert max(rank["began"] for rank in found) < min(rank["ended"] for rank in found)

    def test_weights_equal_those_of_a_job_that_runs_alone(
        self, ends: tuple[End, ...], jobs: list[Scenario], environ: dict[str, str]
    ) -> None:
        first = jobs[0]
        alone = run(Scenario(first.accelerator, first.namespace, first.steps, first.devices), environ)
        for end in ends:
            assert [rank["weights"] for rank in end.findings["train_side_by_side"]] == alone.each(
                "train_side_by_side", "weights"
            )

    def test_each_job_has_the_requested_number_of_ranks(self, ends: tuple[End, ...], devices: int) -> None:
        for end in ends:
            assert [rank["world size"] for rank in end.findings["train_side_by_side"]] == [devices] * devices

    def test_all_processes_end(self, ends: tuple[End, ...]) -> None:
        assert [end.left for end in ends] == [[], []]


@cache
def _meeting(*_: object) -> Path:
    """Return the folder in which the two jobs wait for each other; tests that share their run get the same folder."""
    return new_folder()
