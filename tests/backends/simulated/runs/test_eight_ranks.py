"""A rank on each card of a server."""

from __future__ import annotations

import re

from tests.backends.posed.chip import PosedChip
from tests.backends.posed.runs.fixtures import Run


class TestEightRanks:
    """The chip's own ``train.py``, which says of each rank where it ran, on as many cards as there are."""

    def test_every_rank_holds_another_card_and_all_end_with_the_same_weights(self, posed: PosedChip, run: Run) -> None:
        said = run("train.py", f"devices={posed.cards}")

        held = re.findall(r"^rank (\d+): node 0, (.+)$", said, flags=re.M)
        everyone = list(range(posed.cards))
        assert [int(rank) for rank, _ in held] == everyone
        # A card, and by what other number the vendor knows it.
        for numbers in zip(*(re.findall(r"\d+", place) for _, place in held), strict=True):
            assert sorted(map(int, numbers)) == everyone
        assert posed.eight_ranks in said.splitlines()
        assert "the ranks hold 1 set of weights" in said
        posed.page.assert_shown(f"NORTHBRIDGE_SIMULATE={posed.name} python train.py devices={posed.cards}", said)
