"""All ways to start ranks."""

from __future__ import annotations

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import run
from northbridge_conformance.runs.comparison import differences_from_cpu
from northbridge_conformance.runs.scenario import Launch, Scenario, reference
from northbridge_conformance.suite import FABRICS, TRAINERS, Suite, cpu_run, require, require_devices, shows
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
