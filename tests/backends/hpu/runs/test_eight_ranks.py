"""Eight ranks on one server."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.backends.hpu.runs.page import assert_shown


def test_every_rank_holds_another_card_and_all_end_with_the_same_weights(run: Callable[..., str]) -> None:
    said = run("train.py", "devices=8")

    held = re.findall(r"^rank (\d): node 0, card (\d), module (\d)$", said, flags=re.M)
    ranks, cards, modules = zip(*held, strict=True)
    assert list(ranks) == list("01234567")
    assert sorted(cards) == sorted(modules) == list("01234567")
    assert "the ranks hold 1 set of weights" in said
    assert_shown("NORTHBRIDGE_SIMULATE=hpu python train.py devices=8", said)
