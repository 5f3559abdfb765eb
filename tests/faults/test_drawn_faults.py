"""Of the ten faults that a seed draws, eight at least are found by the test that ought to.

The first seed's are made here; docs/reports/drawn-faults.md is the record of all.
"""

from __future__ import annotations

import pytest
from tests.faults.drawn_faults import PAGE, SEEDS, try_seed
from tests.mutation.hunt import LEAST, is_enough
from tests.mutation.mutations import draw


@pytest.mark.timeout(1800)  # a dozen runs of the suite
def test_eight_of_ten_are_found() -> None:
    catches = try_seed(SEEDS[0])

    assert is_enough(catches), [catch.describe() for catch in catches]


def test_the_page_is_a_record_of_all_of_them() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]

    assert [(seed, fault) for seed, fault, _ in rows] == [
        (str(seed), fault.describe()) for seed in SEEDS for fault in draw(seed)
    ], "write it anew: python -m tests.faults.drawn_faults"
    for seed in SEEDS:
        assert sum(test.startswith("`") for number, _, test in rows if number == str(seed)) >= LEAST
