"""Descriptions of the ends of processes."""

from __future__ import annotations

import pytest

from northbridge.errors import DetectionError
from northbridge.processes.endings import describe_error, describe_exit


@pytest.mark.parametrize(
    ("code", "told"), [(0, "ended with exit code 0"), (-15, "was killed by SIGTERM"), (-40, "was killed by signal 40")]
)
def test_the_end_of_a_process_in_words(code: int, told: str) -> None:
    assert describe_exit(code) == told


def test_what_a_vendors_code_raised_is_one_short_line() -> None:
    assert describe_error(ValueError("no\n  card\x1b[2J")) == "ValueError: no card"
    assert describe_error(ValueError("x" * 1000)) == f"ValueError: {'x' * 199}…"
    assert describe_error(ValueError()) == "ValueError"


def test_an_error_of_ours_is_told_to_its_end() -> None:
    """There it says what to do."""
    error = DetectionError(f"{'the driver ' * 30}hangs. Fix: restart it", backend="acme")

    assert describe_error(error) == f"DetectionError: {error}"


def test_an_error_whose_text_cannot_be_read_is_told_by_its_name() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise KeyError("text")

    assert describe_error(Broken()) == "Broken: (its text cannot be read: KeyError)"
