"""How a process ended."""

from __future__ import annotations

import pytest

from northbridge.ending import describe_exit


@pytest.mark.parametrize(
    ("code", "told"),
    [(0, "ended with exit code 0"), (-15, "was killed by SIGTERM"), (-40, "was killed by signal 40")],
)
def test_the_end_of_a_process_in_words(code: int, told: str) -> None:
    assert describe_exit(code) == told
