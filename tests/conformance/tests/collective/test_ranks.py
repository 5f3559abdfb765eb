"""The classes' judgement of the ranks' findings."""

from __future__ import annotations

import pytest

from northbridge.errors import CollectiveError, UnsupportedError
from northbridge_conformance.tests.collective.ranks import attempt, error_of, rejections, results_of


def lack() -> None:
    raise CollectiveError("accl has no such collective")


def test_results_are_kept_and_errors_said() -> None:
    assert attempt(lambda: [1, 2]) == [1, 2]
    assert attempt(lack) == {"error": "CollectiveError: accl has no such collective"}


@pytest.mark.parametrize("found", [[1.0], {"sum": 1.0}, 3])
def test_a_result_is_not_an_error(found: object) -> None:
    assert error_of(found) == ""


def test_what_every_rank_lacks_is_unsupported() -> None:
    ranks = [{"gathered": attempt(lack)}] * 2

    assert rejections(ranks, "gathered") == ["CollectiveError: accl has no such collective"] * 2
    with pytest.raises(UnsupportedError, match="gathered: CollectiveError: accl has no such collective"):
        results_of(ranks, "gathered")


def test_what_one_rank_lacks_is_a_failure() -> None:
    ranks = [{"gathered": [1]}, {"gathered": attempt(lack)}]

    assert rejections(ranks, "gathered") == []
    with pytest.raises(AssertionError, match="gathered fails on some ranks"):
        results_of(ranks, "gathered")


@pytest.mark.parametrize("ranks", [[0], [0, 1]])
def test_failed_assertion_is_never_a_refusal(ranks: list[int]) -> None:
    def fail() -> None:
        raise AssertionError("it is on the CPU")

    found = [{"gathered": attempt(fail) if rank in ranks else [1]} for rank in range(2)]

    assert rejections(found, "gathered") == []
    with pytest.raises(AssertionError, match=r"gathered failed:\nrank 0: Traceback(?s:.*)it is on the CPU"):
        results_of(found, "gathered")


def test_what_all_have_is_returned_in_their_order() -> None:
    assert results_of([{"gathered": 1}, {"gathered": 2}], "gathered") == [1, 2]
