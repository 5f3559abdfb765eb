"""Gradients of ranks with different data, without Lightning."""

from __future__ import annotations

import pytest
import torch

from northbridge_conformance.rank_programs import ddp_gradients
from northbridge_conformance.runs.differences import tolerance
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.collective.ranks import Claims, Facts, Ranks, everybodys, may_reject, rejections

_TOLERANCE = 1e-5
"""The tolerance for weights of about 0.1, because sums have another order."""


class GradientAveraging(Ranks):
    """torch's DDP on ranks with different data trains as one process with all data does."""

    advice = (
        "DDP adds gradients up over the vendor's process group and divides by the number of ranks. Look at the sum of"
        " large tensors, at the group's size, and at what the Collective's ddp_options() ask for."
    )
    step = "ddp_gradients"

    @shows("ddp_averaging")
    def test_weights_are_those_of_one_process(self, backend: str, ranks: Facts, devices: int) -> None:
        whole = ddp_gradients.weights_alone(devices, range(devices))

        for found in everybodys(ranks, "weights"):
            assert found == pytest.approx(whole, abs=tolerance(backend, _TOLERANCE), rel=0)

    @shows("ddp_averaging")
    @pytest.mark.parametrize("fault", ["no average", "a sum", "the average of twice as many", "the last rank left out"])
    def test_the_weights_are_not_those_of(self, backend: str, ranks: Facts, devices: int, fault: str) -> None:
        among, factor = {
            "no average": (range(1), 1.0),
            "a sum": (range(devices), float(devices)),
            "the average of twice as many": (range(devices), 0.5),
            "the last rank left out": (range(devices - 1), 1.0),
        }[fault]
        wrong = ddp_gradients.weights_alone(devices, among, factor)

        for found in everybodys(ranks, "weights"):
            distances = [abs(ours - theirs) for ours, theirs in zip(found, wrong, strict=True)]
            assert max(distances) > max(100 * _TOLERANCE, 3 * tolerance(backend, _TOLERANCE))

    @shows("ddp_averaging")
    def test_the_ranks_have_the_same_weights_to_the_bit(self, ranks: Facts, devices: int) -> None:
        found = everybodys(ranks, "weights")

        assert found == found[:1] * devices

    @shows("ddp_averaging")
    def test_a_model_in_bfloat16_learns_the_same_on_all_ranks(
        self, ranks: Facts, devices: int, claimed: Claims
    ) -> None:
        if may_reject(claimed, "bfloat16") and rejections(ranks, "weights of bfloat16"):
            return
        found = everybodys(ranks, "weights of bfloat16")

        assert found == found[:1] * devices

    @shows("ddp_averaging")
    def test_the_ranks_begin_with_the_weights_of_the_first(self, ranks: Facts, devices: int) -> None:
        found = everybodys(ranks, "first weights")

        assert found == found[:1] * devices

    @shows("ddp_averaging")
    def test_a_weight_that_some_ranks_do_not_use_is_one_on_all(self, ranks: Facts, devices: int) -> None:
        weights = [-sum(range(first, devices + 1, 2)) / devices for first in (1, 2)]

        assert everybodys(ranks, "weights of branches") == [weights] * devices

    def test_a_communication_hook_sends_float16(self, ranks: Facts, devices: int, claimed: Claims) -> None:
        if may_reject(claimed, "float16") and rejections(ranks, "compressed gradient"):
            return
        given = ddp_gradients.GRADIENTS[:devices]
        halves = torch.tensor(given).half() / devices
        expected = (halves[0] + halves[1]).item()

        assert everybodys(ranks, "compressed gradient") == [expected] * devices
        assert expected != pytest.approx(sum(given) / devices, abs=1e-6)  # the value without compression

    @shows("ddp_averaging")
    def test_join_lets_ranks_have_unequal_numbers_of_batches(self, ranks: Facts, devices: int) -> None:
        # Rank r has the batches 1 to 2 + 2r; each gradient is divided by the number of ranks, finished ones too.
        gradients = [sum(range(1, 3 + 2 * rank)) / devices for rank in range(devices)]

        assert everybodys(ranks, "joined weight") == [-sum(gradients)] * devices
