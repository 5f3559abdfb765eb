"""The communication library, without Lightning."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from northbridge.conformance.duties.collectives import DTYPES, SHORT_S
from northbridge.conformance.scenario import Scenario, run
from northbridge.conformance.suite import Suite

REDUCED = {"SUM": [6, 3, 6], "MIN": [1, 1, 3], "MAX": [5, 2, 3]}
"""Of ``[1, 2, 3]`` and ``[5, 1, 3]``."""


class Collective(Suite):
    """Two ranks on two devices exchange tensors and objects; no Lightning is imported."""

    @pytest.fixture
    def ranks(self, backend: str, environ: dict[str, str]) -> list[dict[str, Any]]:
        return run(Scenario(backend, "", ("collectives",), 2, launch="ranks"), environ).ranks("collectives")

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("reduction", REDUCED)
    def test_all_reduce(self, ranks: list[dict[str, Any]], reduction: str, dtype: str) -> None:
        assert [rank[f"{reduction} of {dtype}"] for rank in ranks] == [REDUCED[reduction]] * 2

    def test_a_sum_of_int64_is_exact(self, ranks: list[dict[str, Any]]) -> None:
        large = ranks[0]["large"]

        assert [rank["sum of large numbers"] for rank in ranks] == [[2 * large + 1]] * 2

    def test_reduce_to_rank_0(self, ranks: list[dict[str, Any]]) -> None:
        assert ranks[0]["reduce to rank 0"] == [[0.0, 6.0], [3.0, 9.0]]

    def test_broadcast_from_rank_1(self, ranks: list[dict[str, Any]]) -> None:
        assert [rank["broadcast"] for rank in ranks] == [[1.5, 0.5]] * 2

    def test_all_gather(self, ranks: list[dict[str, Any]]) -> None:
        assert [rank["gathered"] for rank in ranks] == [[[0.5, -0.5], [1.5, 0.5]]] * 2

    def test_all_gather_into_one_tensor(self, ranks: list[dict[str, Any]]) -> None:
        assert [rank["gathered flat"] for rank in ranks] == [[0.5, -0.5, 1.5, 0.5]] * 2

    def test_reduce_scatter(self, ranks: list[dict[str, Any]]) -> None:
        assert [rank["scattered"] for rank in ranks] == [[0.0, 3.0], [6.0, 9.0]]

    def test_results_lie_on_the_ranks_device(self, ranks: list[dict[str, Any]]) -> None:
        assert [rank["gathered on"] for rank in ranks] == [[rank["device"]] for rank in ranks]

    def test_objects_are_gathered_and_broadcast(self, ranks: list[dict[str, Any]]) -> None:
        assert [rank["objects"] for rank in ranks] == [[{"rank": 0, "text": ""}, {"rank": 1, "text": "ü"}]] * 2
        assert [rank["message"] for rank in ranks] == [["from 1", 1]] * 2

    def test_asynchronous_collectives_own_temporaries_that_are_dropped(self, ranks: list[dict[str, Any]]) -> None:
        assert [rank["asynchronous"] for rank in ranks] == [[[2.0 * number + 1] * 3 for number in range(50)]] * 2

    def test_a_communication_hook_sends_float16(self, ranks: list[dict[str, Any]]) -> None:
        halves = torch.tensor([0.1, 0.2]).half() / 2

        expected = (halves[0] + halves[1]).item()

        assert [rank["compressed gradient"] for rank in ranks] == [expected] * 2
        assert expected != pytest.approx(0.15, abs=1e-6)  # what no compression would give

    def test_join_lets_ranks_have_unequal_numbers_of_batches(self, ranks: list[dict[str, Any]]) -> None:
        # Batches 1 and 2 on rank 0, 1 to 4 on rank 1, each gradient divided by two ranks.
        assert [rank["joined weight"] for rank in ranks] == [-(1 + 2 + (3 + 4) / 2)] * 2

    def test_a_rank_that_never_comes_ends_the_others_within_the_timeout(self, ranks: list[dict[str, Any]]) -> None:
        outcome = ranks[0]["absent rank"]

        assert outcome["error"]
        assert outcome["seconds"] < 4 * SHORT_S
