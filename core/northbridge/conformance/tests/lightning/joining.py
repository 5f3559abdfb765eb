"""What a Fabric's loop may do with DDP."""

from __future__ import annotations

from northbridge.conformance.runs.differences import differences_from_cpu
from northbridge.conformance.runs.scenario import Outcome
from northbridge.conformance.suite import FABRICS, UsesSuite, in_each


class Joining(UsesSuite):
    """Gradients that wait for their reduction, and ranks that run out of batches at different times."""

    runs = in_each(FABRICS[0], devices=(2,))
    claims = ("ddp_averaging",)
    advice = "Join sends zeros for ranks that are done: look at all_reduce of numbers of steps, and at broadcast."

    def test_gradients_wait_where_the_loop_says_so(self, backend: str, chip: Outcome, cpu: Outcome) -> None:
        found, expected = chip.each("joining", "accumulated"), cpu.each("joining", "accumulated")

        assert differences_from_cpu(backend, found, expected) == []
        assert found[0]["gradients in between"] != found[1]["gradients in between"]
        assert found[0]["weights"] == found[1]["weights"]

    def test_a_rank_that_has_run_out_of_batches_waits_for_the_other(
        self, backend: str, chip: Outcome, cpu: Outcome
    ) -> None:
        found, expected = chip.each("joining", "joined"), cpu.each("joining", "joined")

        assert differences_from_cpu(backend, found, expected) == []
        assert [each["batches"] for each in found] == [2, 4]
        assert found[0]["weights"] == found[1]["weights"]
