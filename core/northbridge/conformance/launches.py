"""Every way in which two ranks are started."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.conformance.scenario import Launch, Scenario, run
from northbridge.conformance.suite import FABRICS, TRAINERS, Suite, cpu_run, require


class Launches(Suite):
    """However the ranks are started, they end with the weights of Lightning's own two CPU ranks."""

    @pytest.mark.parametrize("face", TRAINERS)
    @pytest.mark.parametrize("strategy", ["ddp_spawn", "ddp_fork"])
    def test_a_trainer_starts_processes(self, backend: str, environ: dict[str, str], face: str, strategy: str) -> None:
        self.check_trainer(Scenario(backend, face, ("training",), 2, strategy, models=("ensemble",)), environ)

    @pytest.mark.parametrize("launch", ["torchrun", "two nodes"])
    def test_a_trainer_is_started_from_outside(self, backend: str, environ: dict[str, str], launch: Launch) -> None:
        devices = 1 if launch == "two nodes" else 2
        models = ("mlp", "convnet", "transformer")
        self.check_trainer(
            Scenario(backend, TRAINERS[0], ("training",), devices, launch=launch, models=models), environ
        )

    @pytest.mark.parametrize("strategy", ["ddp_spawn", "ddp_fork"])
    def test_a_fabric_starts_processes(self, backend: str, environ: dict[str, str], strategy: str) -> None:
        models = ("mlp", "convnet", "transformer")
        self.check(Scenario(backend, FABRICS[0], ("looping",), 2, strategy, models=models), environ)

    def test_a_fabric_is_started_by_torchrun(self, backend: str, environ: dict[str, str]) -> None:
        models = ("mlp", "convnet", "transformer")
        self.check(Scenario(backend, FABRICS[0], ("looping",), 2, launch="torchrun", models=models), environ)

    @pytest.mark.parametrize("strategy", ["ddp_spawn", "ddp_fork"])
    def test_a_simulated_chip_says_so_once(self, backend: str, environ: dict[str, str], strategy: str) -> None:
        require(TRAINERS[0])
        scenario = Scenario(backend, TRAINERS[0], ("training",), 2, strategy, models=("ensemble",))
        require_fork(scenario)

        said = run(scenario, environ).said.count(f"{backend} is a simulated chip")

        assert said == northbridge.get(backend).capabilities.simulated

    def check_trainer(self, scenario: Scenario, environ: dict[str, str]) -> None:
        """Compare, and see that the process which the user started holds the trained weights too."""
        self.check(scenario, environ)
        for model in scenario.models:
            trained = cpu_run(scenario.face, 2).ranks(f"training {model}")[0]["weights"]
            assert run(scenario, environ).ranks(f"after training {model}")[0]["weights"] == trained

    def check(self, scenario: Scenario, environ: dict[str, str]) -> None:
        """Compare the weights of each model on each rank."""
        require(scenario.face)
        require_fork(scenario)
        for model in scenario.models:
            expected = cpu_run(scenario.face, 2).each(f"training {model}", "weights")
            found = run(scenario, environ)
            assert found.each(f"training {model}", "weights") == expected
            assert found.each(f"training {model}", "world size") == [2, 2]


def require_fork(scenario: Scenario) -> None:
    """Skip the test where the ranks of ``scenario`` would be forked, and the chip denies that they may be."""
    claim = northbridge.get(scenario.accelerator).capabilities.fork
    if scenario.strategy.endswith("_fork") and claim.denied:
        pytest.skip(f"{scenario.accelerator} cannot be forked: {claim.reason}")
