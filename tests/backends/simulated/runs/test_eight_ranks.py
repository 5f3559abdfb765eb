"""A rank on each card of a server."""

from __future__ import annotations

import re

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.runs.fixtures import Run


class TestEightRanks:
    """The chip's own ``train.py``, which says of each rank where it ran, on as many cards as there are."""

    def test_every_rank_holds_another_card(self, sim: SimChip, run: Run) -> None:
        said = run("train.py", f"devices={sim.cards}")

        held = re.findall(r"^rank (\d+): node 0, (.+)$", said, flags=re.M)
        everyone = list(range(sim.cards))
        assert [int(rank) for rank, _ in held] == everyone
        # A card, and by what other number the vendor knows it.
        for numbers in zip(*(re.findall(r"\d+", place) for _, place in held), strict=True):
            assert sorted(map(int, numbers)) == everyone
        assert sim.eight_ranks in said.splitlines()
        assert "the ranks hold 1 set of weights" in said
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} python train.py devices={sim.cards}", said)
