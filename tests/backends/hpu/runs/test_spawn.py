"""Ranks that the first process spawns: it takes no card itself."""

from __future__ import annotations

from collections.abc import Callable


def test_each_rank_holds_a_card_and_the_parent_none(run: Callable[..., str]) -> None:
    said = run("spawn.py")

    assert "rank 0 holds 1 card, the parent 0\n" in said
    assert "rank 1 holds 1 card, the parent 0\n" in said
    assert "the parent has initialized torch.hpu: False" in said
