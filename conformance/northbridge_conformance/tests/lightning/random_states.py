"""Random numbers of the chip in interrupted runs."""

from __future__ import annotations

import pytest

from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.suite import TRAINERS, NamespaceSuite, Runs, in_each


class RandomStates(NamespaceSuite):
    """An interrupted run with dropout on the chip and shuffling on the host ends with the weights of a whole run."""

    runs: Runs = in_each(*TRAINERS, devices=(1, 2))
    claims: tuple[str, ...] = ("resume",)
    advice = "Look at the random state of each device: read and put back, it has to give the same numbers again."

    @pytest.mark.parametrize(
        ("interrupted", "through"),
        [
            ("after a sanity check", "through"),
            ("taken up at an epoch's end", "through"),
            ("taken up within an epoch", "through, resumable"),
        ],
    )
    def test_the_weights_are_those_of_a_run_that_went_through(
        self, chip: RunResult, interrupted: str, through: str
    ) -> None:
        assert chip.each("random_states", interrupted) == chip.each("random_states", through)

    def test_without_the_states_a_run_draws_other_numbers(self, chip: RunResult) -> None:
        for found in chip.ranks("random_states"):
            assert found["taken up without the states"] != found["through"]

    def test_a_run_resumed_by_another_process_draws_the_same(
        self, backend: str, namespace: str, devices: int, environ: dict[str, str], chip: RunResult
    ) -> None:
        through = chip.each("random_states", "through")

        again = run(Scenario(backend, namespace, ("random_states.resume",), devices, resume=str(chip.folder)), environ)

        assert again.each("random_states.resume", "weights") == through
