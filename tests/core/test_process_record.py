"""The record of silent decisions, in the process and in the log."""

from __future__ import annotations

import logging

import pytest

import northbridge
from northbridge.process_record import note

pytestmark = pytest.mark.usefixtures("nothing_known")


def test_what_is_noted_is_recorded_once_oldest_first(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "northbridge")
    before = northbridge.record()

    for _ in range(2):
        note("acme", "loaded", "it was asked for")
    note("auto", "chose acme", "its hardware is present")

    first = northbridge.Entry("acme", "loaded", "it was asked for")
    assert northbridge.record() == (first, northbridge.Entry("auto", "chose acme", "its hardware is present"))
    assert first.as_dict() == {"subject": "acme", "outcome": "loaded", "reason": "it was asked for"}
    assert (len(caplog.records), before) == (2, ())


@pytest.mark.parametrize(("problem", "level"), [(True, logging.INFO), (False, logging.DEBUG)])
def test_the_log_has_a_line_for_it(problem: bool, level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "northbridge")

    note("acme", "not available", "no hardware is present", problem=problem)

    assert caplog.record_tuples == [("northbridge", level, "acme: not available: no hardware is present")]


def test_nothing_is_printed_where_nobody_listens(capfd: pytest.CaptureFixture[str]) -> None:
    note("acme", "not available", "no hardware is present", problem=True)

    assert capfd.readouterr() == ("", "")


def test_a_line_of_the_log_does_nothing_on_a_terminal(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "northbridge")

    note("acme", "passed over", "version 1.0\x1b]0;owned\x07\x9b")

    assert caplog.messages == ["acme: passed over: version 1.0\\u009b"]
