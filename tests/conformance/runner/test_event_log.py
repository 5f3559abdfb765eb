"""One process writes, another reads meanwhile."""

from __future__ import annotations

from pathlib import Path

from northbridge_conformance.runner.event_log import Began, Ended, EventLog, Uncollected
from northbridge_conformance.verdict import Ending


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
