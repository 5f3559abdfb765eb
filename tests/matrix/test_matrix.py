"""The oldest and the newest release of Lightning, in every test run; ``make matrix`` does the others."""

from __future__ import annotations

import pytest
from tests.matrix.__main__ import _passed, _row, page
from tests.matrix.releases import NEWEST, OLDEST, PAIRS, Pair
from tests.matrix.trials import TRIALS, Trial, differences


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.title)
@pytest.mark.parametrize("pair", [OLDEST, NEWEST], ids=str)
def test_training_equals_the_cpus_on(pair: Pair, trial: Trial) -> None:
    assert differences(pair, trial) == []


def test_page_has_a_row_per_release_and_says_failures() -> None:
    wrong = [[], ["lightning.pytorch: the weights of rank 1 differ from the CPU's"], [], []]

    text = page({pair: _row(pair, wrong) for pair in PAIRS})

    assert text.count("| passed | failed: lightning.pytorch: the weights of rank 1 differ") == len(PAIRS)
    assert "| lightning 2.4.0, pytorch-lightning 2.6.6 |" in text


def test_passed_rows_are_kept_when_others_run_again() -> None:
    good, bad = _row(OLDEST, [[], [], [], []]), _row(NEWEST, [[], ["it crashed"], [], []])

    assert _passed(page({OLDEST: good, NEWEST: bad})) == {"2.4.0": good}
