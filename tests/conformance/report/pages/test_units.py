"""Times and sizes as people write them."""

from __future__ import annotations

import pytest

from northbridge_conformance.report.pages.units import show_memory, show_moment, show_seconds


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.018, "0.02 s"), (14.4, "14 s"), (119.6, "2 min 0 s"), (200.2, "3 min 20 s")]
)
def test_a_duration(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown


def test_memory_is_in_gibibytes() -> None:
    assert show_memory(8 * 2**30) == "8.0 GiB"


def test_a_moment_is_to_the_minute() -> None:
    assert show_moment("2026-11-24T20:40:45.123+00:00") == "2026-11-24 20:40 UTC"
