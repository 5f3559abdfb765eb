"""The oldest release of Lightning. All other tests run on the newest; ``make matrix`` does the others, too."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from tests.matrix.__main__ import NEWEST, OLDEST, PAIRS, TRIALS, Trial, _passed, _row, differences, parts


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.title)
def test_training_on_the_oldest_equals_the_cpus(trial: Trial) -> None:
    assert differences(OLDEST, trial) == []


def test_the_newest_is_installed() -> None:
    assert str(NEWEST) == version("lightning") == version("pytorch-lightning")


def test_page_has_a_row_per_release_and_keeps_passed_ones() -> None:
    wrong = [[], ["lightning.pytorch: the weights of rank 1 differ from the CPU's"], [], []]
    rows = {pair: _row(pair, wrong) for pair in PAIRS} | {OLDEST: _row(OLDEST, [[]] * 4)}

    text = "\n".join(parts(rows))

    assert text.count("| passed | failed: lightning.pytorch: the weights of rank 1 differ") == len(PAIRS) - 1
    assert "| lightning 2.4.0, pytorch-lightning 2.6.6 |" in text
    assert _passed(text) == {"2.4.0": rows[OLDEST]}
