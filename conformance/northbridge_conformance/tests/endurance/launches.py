"""All ways to start ranks, and two jobs on one machine at the same time."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import End, new_folder, run, run_to_the_end
from northbridge_conformance.runs.comparison import differences_from_cpu
from northbridge_conformance.runs.hosts import _Classifier, classifier, facts, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Launch, Scenario, reference, write
from northbridge_conformance.suite import (
    FABRICS,
    TRAINERS,
    NamespaceSuite,
    Runs,
    Suite,
    cpu_run,
    in_each,
    require,
    require_devices,
    shows,
)
from northbridge_conformance.tests.lightning.training import train

_MODELS = ("mlp", "convnet", "transformer")


class Launches(Suite):
    """For every launcher, each rank trains on its own device to the weights of Lightning's own CPU ranks.

    If the chip denies the claim ``fork``, forking ranks raises :class:`UnsupportedError`.
    """

    advice = (
        "Look at what the vendor's software does when it is imported, or a card is touched, in a process that starts"
        " others: Bridge.load() takes no card; and at the claim `fork`, where it does not survive one."
    )

    @pytest.mark.parametrize("namespace", TRAINERS)
    def test_a_trainer_spawns_processes(self, backend: str, environ: dict[str, str], namespace: str) -> None:
        self.check_trainer(_with_trainer(backend, namespace, "ddp_spawn"), environ)

    @shows("fork")
    @pytest.mark.parametrize("namespace", TRAINERS)
    def test_a_trainer_forks_processes(self, backend: str, environ: dict[str, str], namespace: str) -> None:
        self.check_trainer(_with_trainer(backend, namespace, "ddp_fork"), environ)

    @pytest.mark.parametrize("launch", ["torchrun", "two nodes"])
    def test_a_trainer_is_started_by_an_external_launcher(
        self, backend: str, environ: dict[str, str], launch: Launch
    ) -> None:
        scenario = Scenario(backend, TRAINERS[0], (reference(train),), 2, launch=launch, models=_MODELS)
        require_devices(backend, scenario.ranks)
        self.check_trainer(scenario, environ)
        for changed in run(scenario, environ).each("after train mlp", "changed"):
            assert not {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK"} & set(changed)

    def test_a_fabric_spawns_processes(self, backend: str, environ: dict[str, str]) -> None:
        self.check(_with_fabric(backend, "ddp_spawn"), environ)

    @shows("fork")
    def test_a_fabric_forks_processes(self, backend: str, environ: dict[str, str]) -> None:
        self.check(_with_fabric(backend, "ddp_fork"), environ)

    def test_a_fabric_is_started_by_torchrun(self, backend: str, environ: dict[str, str]) -> None:
        self.check(Scenario(backend, FABRICS[0], (reference(train),), 2, launch="torchrun", models=_MODELS), environ)

    def test_simulation_notice_appears_once_with_spawned_ranks(self, backend: str, environ: dict[str, str]) -> None:
        self.check_says_so_once(_with_trainer(backend, TRAINERS[0], "ddp_spawn"), environ)

    @shows("fork")
    def test_simulation_notice_appears_once_with_forked_ranks(self, backend: str, environ: dict[str, str]) -> None:
        self.check_says_so_once(_with_trainer(backend, TRAINERS[0], "ddp_fork"), environ)

    def check_says_so_once(self, scenario: Scenario, environ: dict[str, str]) -> None:
        """Check that exactly one process says that a simulated chip is simulated."""
        require(scenario.namespace)
        found = run(scenario, environ)
        assert found.ranks(f"train {scenario.models[0]}")  # raises if the step was refused
        said = found.said.count(f"{scenario.accelerator} is a simulated chip")

        assert said == northbridge.get(scenario.accelerator).capabilities.simulated

    def check_trainer(self, scenario: Scenario, environ: dict[str, str]) -> None:
        """Check the ranks, and that the process that the user started holds the trained weights too."""
        self.check(scenario, environ)
        for model in scenario.models:
            trained = cpu_run(scenario.namespace, scenario.ranks).ranks(f"train {model}")[0]["weights"]
            found = run(scenario, environ).ranks(f"after train {model}")[0]["weights"]
            assert differences_from_cpu(scenario.accelerator, found, trained) == []

    def check(self, scenario: Scenario, environ: dict[str, str]) -> None:
        """Compare the weights of each model on each rank, and check the device on which it trained."""
        require(scenario.namespace)
        roots = list_roots(scenario, environ)
        for model in scenario.models:
            expected = cpu_run(scenario.namespace, scenario.ranks).each(f"train {model}", "weights")
            found = run(scenario, environ)
            weights = found.each(f"train {model}", "weights")
            assert differences_from_cpu(scenario.accelerator, weights, expected) == []
            assert found.each(f"train {model}", "world size") == [scenario.ranks] * scenario.ranks
            assert found.each(f"train {model}", "root device") == roots
            assert found.each(f"train {model}", "current device") == roots
            assert found.each(f"train {model}", "in use") in ([None] * len(roots), [[root] for root in roots])


def list_roots(scenario: Scenario, environ: dict[str, str]) -> list[str]:
    """Return the device of each global rank; on two nodes too, as both are this machine."""
    with pytest.MonkeyPatch.context() as variables:
        for name, value in environ.items():
            variables.setenv(name, value)
        device = northbridge.load(scenario.accelerator).device
        return [str(device.root(index)) for index in range(scenario.ranks)]


def _with_trainer(backend: str, namespace: str, strategy: str) -> Scenario:
    return Scenario(backend, namespace, (reference(train),), 2, strategy, models=("ensemble",))


def _with_fabric(backend: str, strategy: str) -> Scenario:
    return Scenario(backend, FABRICS[0], (reference(train),), 2, strategy, models=_MODELS)


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
