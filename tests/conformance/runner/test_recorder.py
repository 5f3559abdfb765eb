"""Endings of tests, from their errors, and the log, which one process writes and another reads meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from northbridge.errors import CheckpointError, UnsupportedError
from northbridge_conformance.runner.event_log import Began, Ended, EventLog, Uncollected
from northbridge_conformance.runner.recorder import classify
from northbridge_conformance.runs.scenario import HungError, RunError
from northbridge_conformance.verdict import Ending, VoidError


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (AssertionError("1 != 2"), Ending.FAILED),
        (UnsupportedError("no such unit", capability="float8"), Ending.REFUSED),
        (NotImplementedError("aten::bmm"), Ending.REFUSED),
        (RuntimeError("'bmm' not implemented for 'Half'"), Ending.REFUSED),
        (RuntimeError("Could not run 'aten::bmm'"), Ending.REFUSED),
        (RuntimeError("driver error 7"), Ending.FAILED),
        (CheckpointError("the disk is full"), Ending.FAILED),
        (RunError("it failed; it had said: bmm is not supported"), Ending.FAILED),
        (VoidError("it varies"), Ending.VOID),
        (HungError("it did not end"), Ending.HUNG),
        (pytest.skip.Exception("one device is here"), Ending.FORBIDDEN),
    ],
)
def test_an_ending_is_what_was_raised(error: BaseException, ending: Ending) -> None:
    assert classify(error) is ending


def test_each_line_is_read_once_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    writer, reader = EventLog(file), EventLog(file)
    ended = Ended(id="C1/Device/test_ü", ending=Ending.FAILED, seconds=0.5, evidence="two\nlines")

    assert reader.read() == []
    writer.write(Began(id="C1/Device/test_ü"))
    writer.write(ended)
    assert reader.read() == [Began(id="C1/Device/test_ü"), ended]
    assert reader.read() == []

    with file.open("a") as half:
        half.write('{"event":"refused",')
    assert reader.read() == []
    with file.open("a") as half:
        half.write('"reason":"no"}\n')
    assert reader.read() == [Uncollected(reason="no")]
