"""Waits in sends and receives, judged from records that are written here."""

from __future__ import annotations

from tests.core.flight_recorder.logs import all_reduce, judged, log, received, sent, told


def test_receive_without_a_send_names_the_sender() -> None:
    busy = all_reduce(1)

    (text,) = told(log(0, [received(1)]), log(1, [busy]), log(2, []), log(3, []))

    assert text == (
        "rank 1 of group 0 (default_pg, ranks 0-3) has not sent what rank 0 receives, #1 between them (float32 [1024]):"
        " rank 0 has waited for 99 s, at pipe.py:9 in recv; the last call of rank 1 was #1 all_reduce (float32 [1024]),"
        " at train.py:42 in training_step"
    )


def test_the_second_receive_waits_where_one_was_sent() -> None:
    calls = [received(1, 1, "finished"), received(1, 2)]

    (finding,) = judged(log(0, calls), log(1, [sent(0, 1, "finished")]), world_size=2).findings

    assert (finding.kind, finding.number, finding.blamed) == ("not sent", 2, (1,))


def test_a_send_that_nobody_receives_names_the_receiver() -> None:
    (finding,) = judged(log(0, [sent(1)]), log(1, [all_reduce(1)]), world_size=2).findings

    assert (finding.kind, finding.blamed, finding.waiting) == ("not received", (1,), (0,))
    assert "rank 1 of group 0 (default_pg, ranks 0-3) does not receive what rank 0 sends, #1" in finding.text


def test_a_send_that_the_library_has_taken_waits_for_nobody() -> None:
    assert told(log(0, [sent(1, how="over")]), log(1, [all_reduce(1)]), world_size=2) == []


def test_a_receive_that_is_over_without_a_send_has_failed() -> None:
    assert len(told(log(0, [received(1, how="over")]), log(1, [all_reduce(1)]), world_size=2)) == 1


def test_matched_send_and_receive_wait_for_no_rank() -> None:
    assert told(log(0, [sent(1)]), log(1, [received(0)]), world_size=2) == []


def test_a_receive_from_any_rank_takes_any_send() -> None:
    assert told(log(0, [sent(1)]), log(1, [received(None)]), world_size=2) == []

    (text,) = told(log(0, [all_reduce(1)]), log(1, [received(None)]), world_size=2)
    assert text.startswith("no rank has sent what rank 1 of group 0 (default_pg, ranks 0-3) receives from any rank")


def test_receives_one_behind_the_other_are_a_chain() -> None:
    logs = [log(0, [received(1)]), log(1, [received(2)]), log(2, [all_reduce(1)])]

    judgement = judged(*logs, world_size=3)

    (chain,) = judgement.chains
    assert chain.startswith("rank 0 waits for rank 1 (recv #1 of group 0")
    assert chain.endswith(": look at rank 2 first")
