"""The communication library, without Lightning."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from northbridge.conformance.duties.collectives import DTYPES, GRADIENTS, SHORT_S
from northbridge.conformance.scenario import Scenario, run
from northbridge.conformance.suite import Suite, require_devices

REDUCED = {
    2: {"SUM": [6, 3, 6], "MIN": [1, 1, 3], "MAX": [5, 2, 3]},
    4: {"SUM": [11, 10, 12], "MIN": [1, 1, 3], "MAX": [5, 4, 3]},
}
"""Of what so many ranks give."""


@pytest.mark.parametrize("devices", [2, 4], ids=["two devices", "four devices"])
class Collective(Suite):
    """As many ranks as devices exchange tensors and objects; no Lightning is imported."""

    @pytest.fixture
    def ranks(self, backend: str, devices: int, environ: dict[str, str]) -> list[dict[str, Any]]:
        require_devices(backend, devices)
        return run(Scenario(backend, "", ("collectives",), devices, launch="ranks"), environ).ranks("collectives")

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("reduction", REDUCED[2])
    def test_all_reduce(self, ranks: list[dict[str, Any]], devices: int, reduction: str, dtype: str) -> None:
        assert [rank[f"{reduction} of {dtype}"] for rank in ranks] == [REDUCED[devices][reduction]] * devices

    def test_a_sum_of_int64_is_exact(self, ranks: list[dict[str, Any]], devices: int) -> None:
        total = devices * ranks[0]["large"] + sum(range(devices))

        assert [rank["sum of large numbers"] for rank in ranks] == [[total]] * devices

    def test_reduce_to_rank_0(self, ranks: list[dict[str, Any]], devices: int) -> None:
        weight = sum(range(1, devices + 1))

        assert ranks[0]["reduce to rank 0"] == [[0.0, 2.0 * weight], [1.0 * weight, 3.0 * weight]]

    def test_broadcast_from_rank_1(self, ranks: list[dict[str, Any]], devices: int) -> None:
        assert [rank["broadcast"] for rank in ranks] == [[1.5, 0.5]] * devices

    def test_all_gather(self, ranks: list[dict[str, Any]], devices: int) -> None:
        given = [[rank + 0.5, rank - 0.5] for rank in range(devices)]

        assert [rank["gathered"] for rank in ranks] == [given] * devices

    def test_all_gather_into_one_tensor(self, ranks: list[dict[str, Any]], devices: int) -> None:
        given = [number for rank in range(devices) for number in (rank + 0.5, rank - 0.5)]

        assert [rank["gathered flat"] for rank in ranks] == [given] * devices

    def test_reduce_scatter(self, ranks: list[dict[str, Any]], devices: int) -> None:
        weight = sum(range(1, devices + 1))

        shares = [[2.0 * rank * weight, (2.0 * rank + 1) * weight] for rank in range(devices)]
        assert [rank["scattered"] for rank in ranks] == shares

    def test_results_lie_on_the_ranks_device(self, ranks: list[dict[str, Any]]) -> None:
        assert [rank["gathered on"] for rank in ranks] == [[rank["device"]] for rank in ranks]

    def test_objects_are_gathered_and_broadcast(self, ranks: list[dict[str, Any]], devices: int) -> None:
        given = [{"rank": rank, "text": "ü" * rank} for rank in range(devices)]

        assert [rank["objects"] for rank in ranks] == [given] * devices
        assert [rank["message"] for rank in ranks] == [["from 1", 1]] * devices

    def test_asynchronous_collectives_own_temporaries_that_are_dropped(
        self, ranks: list[dict[str, Any]], devices: int
    ) -> None:
        sums = [[float(sum(number + rank for rank in range(devices)))] * 3 for number in range(50)]

        assert [rank["asynchronous"] for rank in ranks] == [sums] * devices

    def test_a_communication_hook_sends_float16(self, ranks: list[dict[str, Any]], devices: int) -> None:
        halves = torch.tensor(GRADIENTS[:devices]).half() / devices

        expected = (halves[0] + halves[1]).item()

        assert [rank["compressed gradient"] for rank in ranks] == [expected] * devices
        assert expected != pytest.approx(sum(GRADIENTS) / devices, abs=1e-6)  # what no compression would give

    def test_join_lets_ranks_have_unequal_numbers_of_batches(self, ranks: list[dict[str, Any]], devices: int) -> None:
        # Rank r has the batches 1 to 2 + 2r; each gradient is divided by all ranks, those that are done too.
        gradients = [sum(range(1, 3 + 2 * rank)) / devices for rank in range(devices)]

        assert [rank["joined weight"] for rank in ranks] == [-sum(gradients)] * devices

    def test_a_rank_that_never_comes_ends_the_others_within_the_timeout(self, ranks: list[dict[str, Any]]) -> None:
        outcome = ranks[0]["absent rank"]

        assert outcome["error"]
        assert outcome["seconds"] < 4 * SHORT_S
