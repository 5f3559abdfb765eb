"""Every call of torch's process groups between two ranks on the simulated chip, through the host's memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.scripts import run_script

PROGRAM = Path(__file__).with_name("two_ranks.py")


@pytest.fixture(scope="module", params=["", "pinned"], ids=["pageable", "pinned"])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what both ranks found."""
    folder = tmp_path_factory.mktemp("ranks")
    ran = run_script(PROGRAM, str(folder), request.param, folder=folder)
    files = [folder / f"{rank}.json" for rank in range(2)]
    assert ran.status == 0, ran.said
    assert all(each.is_file() for each in files), ran.said
    return [json.loads(each.read_text()) for each in files]


def test_copies_are_pinned_if_asked_for(ranks: list[dict[str, Any]], request: pytest.FixtureRequest) -> None:
    pins = request.node.callspec.params["ranks"] == "pinned"

    assert [rank["pinned"] for rank in ranks] == [pins] * 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int16", "float8_e4m3fn"])
def test_broadcast_and_gather_of_each_dtype(ranks: list[dict[str, Any]], dtype: str) -> None:
    sent, gathered = ([1, 1], [[0, 1], [1, 1]]) if dtype == "bool" else ([2, 2], [[0, 5], [1, 5]])

    assert [rank[f"broadcast {dtype}"] for rank in ranks] == [sent] * 2
    assert [rank[f"gathered {dtype}"] for rank in ranks] == [gathered] * 2


@pytest.mark.parametrize(("dtype", "total"), [("float32", [2, 5]), ("bfloat16", [2, 5]), ("bool", [1, 1])])
def test_sum_of_each_dtype(ranks: list[dict[str, Any]], dtype: str, total: list[float]) -> None:
    assert [rank[f"reduced {dtype}"] for rank in ranks] == [total] * 2


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("reduced_to_one", ([1], [3])),
        ("gathered_into_slice", 2 * ([-1, 0, 8, 1, 8, -1],)),
        ("gathered_by_one", (None, [[3], [4]])),
        ("scattered", ([5], [6])),
        ("scattered sums, list", ([3, 6], [9, 12])),
        ("scattered sums, single", ([3, 6], [9, 12])),
        ("all to all torch.float32", ([0, 1, 10, 11], [2, 12])),
        ("all to all torch.int16", ([0, 1, 10, 11], [2, 12])),
        ("all_to_all", ([[0], [10]], [[1], [11]])),
        ("received_from_any", ([1, [5, 6]], None)),
        ("sent_around", ([2], [1])),
        ("made_together", 2 * ([[3], [6]],)),
        ("with_a_future", 2 * ([[3], [3], True, True],)),
        ("polled", 2 * ([3],)),
        ("in_inference_mode", 2 * ([[3], [3]],)),
        ("functional", ([[3], [1, 2], [2], [0, 1]], [[3], [1, 2], [4], [5, 5]])),
        ("full_tensor", 2 * ([1, 2, 3],)),
        ("gathered_objects", 2 * ([{"rank": 0}, {"rank": 1}],)),
        ("objects", ([{"rank": 1}, "first", "first", "second"], [{"rank": 1}, "second", None, None])),
        ("copies", (2, 2)),
    ],
)
def test_call_leaves_its_results_on_the_chip(ranks: list[dict[str, Any]], call: str, found: tuple[Any, Any]) -> None:
    assert tuple(rank[call] for rank in ranks) == found


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("reduced int16", "Gloo has no all_reduce of int16. Fix: another dtype"),
        ("reduced float8_e4m3fn", "Gloo has no all_reduce of float8_e4m3fn. Fix: another dtype"),
        ("sum_sparse", "Gloo has no all_reduce of a sparse tensor. Fix: to_dense()"),
        ("split_group", "HostCollective cannot split groups. Fix: new_group()"),
    ],
)
def test_missing_call_is_one_unsupported_error(ranks: list[dict[str, Any]], call: str, said: str) -> None:
    for rank in ranks:
        assert (rank[call]["kinds"][0], rank[call]["said"]) == ("UnsupportedError", said)


@pytest.mark.parametrize("call", ["all_reduce", "barrier", "recv", "recv from any", "start"])
def test_missing_rank_is_a_collective_error_in_time(ranks: list[dict[str, Any]], call: str) -> None:
    error = ranks[0][f"missing {call}"]

    assert error["kinds"][:3] == ["CollectiveError", "NorthbridgeError", "RuntimeError"]
    assert error["timed out"] is True
    assert error["said"].startswith(f"{call.partition(' ')[0]} among 2 ranks failed over Gloo: ")
    assert error["said"].endswith("Fix: see which rank is missing with `northbridge hang`")


def test_future_of_a_missing_rank_has_our_words(ranks: list[dict[str, Any]]) -> None:
    said = ranks[0]["missing future"]["said"]

    assert "CollectiveError: all_reduce among 2 ranks failed over Gloo: Timed out waiting 4000ms" in said


def test_rank_that_has_ended_is_a_collective_error(ranks: list[dict[str, Any]]) -> None:
    error = ranks[0]["without the other rank"]

    assert (error["kinds"][0], error["timed out"]) == ("CollectiveError", False)
    assert error["said"].startswith("all_reduce among 2 ranks failed over Gloo: Connection closed by peer")
    assert error["said"].endswith("Fix: see the other ranks' errors first")
