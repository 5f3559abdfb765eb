"""The oldest release of Lightning. All other tests run on the newest; ``make matrix`` does the others, too."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from tests.matrix.__main__ import _passed, _row, page
from tests.matrix.releases import NEWEST, OLDEST, PAIRS
from tests.matrix.trials import TRIALS, Trial, differences


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.title)
def test_training_on_the_oldest_equals_the_cpus(trial: Trial) -> None:
    assert differences(OLDEST, trial) == []


def test_the_newest_is_installed() -> None:
    assert str(NEWEST) == version("lightning") == version("pytorch-lightning")


def test_page_has_a_row_per_release_and_says_failures() -> None:
    wrong = [[], ["lightning.pytorch: the weights of rank 1 differ from the CPU's"], [], []]

    text = page({pair: _row(pair, wrong) for pair in PAIRS})

    assert text.count("| passed | failed: lightning.pytorch: the weights of rank 1 differ") == len(PAIRS)
    assert "| lightning 2.4.0, pytorch-lightning 2.6.6 |" in text


def test_passed_rows_are_kept_when_others_run_again() -> None:
    good, bad = _row(OLDEST, [[], [], [], []]), _row(NEWEST, [[], ["it crashed"], [], []])

    assert _passed(page({OLDEST: good, NEWEST: bad})) == {"2.4.0": good}
