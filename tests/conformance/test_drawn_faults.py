"""Of the ten faults that a seed draws, eight at least are found by the test that ought to.

The first seed's are made here; docs/reports/drawn-faults.md is the record of all.
"""

from __future__ import annotations

import pytest
from tests.conformance.drawn_faults import PAGE, SEEDS, Drawn

from northbridge.conformance.mutation.hunting import LEAST
from northbridge.conformance.mutation.mutations import draw

pytestmark = pytest.mark.timeout(1800)  # the first test waits for all of them


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return Drawn(tmp_path_factory.mktemp("runs"), SEEDS[:1])


def test_the_right_chip_passes_what_is_to_find_them(drawn: Drawn) -> None:
    assert drawn.tests_that_fail_without_a_fault() == []


def test_eight_of_ten_are_found(drawn: Drawn) -> None:
    missed = [fault.ought for fault in draw(SEEDS[0]) if not drawn.found(fault)]

    assert len(missed) <= 10 - LEAST, missed


def test_the_page_is_a_record_of_all_of_them() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]

    assert [(seed, fault) for seed, fault, _ in rows] == [
        (str(seed), fault.describe()) for seed in SEEDS for fault in draw(seed)
    ], "write it anew: python -m tests.conformance.drawn_faults"
    for seed in SEEDS:
        assert sum(test.startswith("`") for number, _, test in rows if number == str(seed)) >= LEAST
