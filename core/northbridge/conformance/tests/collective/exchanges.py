"""What a library may lack: exchanges of parts, from one rank to another, and of what does not lie in one piece."""

from __future__ import annotations

from typing import Any

import pytest

from northbridge.conformance.rank_programs import exchanges
from northbridge.conformance.rank_programs.transfers import given as given_by
from northbridge.conformance.tests.collective.ranks import Facts, Ranks, everybodys, refusals


class Exchanges(Ranks):
    """Parts for each rank, tensors from one rank to another, and such as lie in pieces arrive, or raise."""

    advice = (
        "Look at the vendor's process group: sizes of parts, which rank is meant within a group, and tensors whose"
        " numbers do not lie one after another. What the library does not do has to raise on every rank."
    )
    step = "exchanges"

    @pytest.mark.parametrize("way", exchanges.WAYS)
    def test_what_a_library_may_lack_is_right_or_refused_on_every_rank(
        self, ranks: Facts, devices: int, way: str
    ) -> None:
        given = [given_by(rank) for rank in range(devices)]
        right: dict[str, list[Any]] = {
            "gathered by rank 1": [given if rank == 1 else [] for rank in range(devices)],
            "scattered by rank 1": given,
            "all to all, uneven": [
                [number for sender in range(devices) for number in exchanges.uneven(sender, rank, devices)]
                for rank in range(devices)
            ],
            "broadcast transposed": [[[10, 13], [11, 14], [12, 15]]] * devices,
            "broadcast of a part": [[1, rank] * 3 for rank in range(devices)],
            "all to all": [[10 * other + rank for other in range(devices)] for rank in range(devices)],
            "sent around": [given[rank - 1] for rank in range(devices)],
        }

        assert refusals(ranks, way) or everybodys(ranks, way) == right[way]
