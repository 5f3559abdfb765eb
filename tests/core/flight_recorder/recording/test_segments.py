"""The files of a rank, in a folder to which others may write too."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from northbridge.flight_recorder.recording.segments import Segments

NAMES = ("rank-0.node-a.100.1000000.0.flight.jsonl", "rank-0.node-a.100.1000000.1.flight.jsonl")


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to], ids=["symbolic", "hard"])
def test_what_a_link_leads_to_stays_as_it_is(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("somebody's")
    for name in NAMES:
        make(tmp_path / name, victim)

    segments = Segments(tmp_path, rank=0, host="node-a", process=100, started=1000.0)
    for turn in range(4):
        segments.turn_over()
        segments.write({"turn": turn})
    segments.close()

    assert victim.read_text() == "somebody's"
    assert [(tmp_path / name).read_text() for name in NAMES] == ['{"turn":2}\n', '{"turn":3}\n']


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    for name in NAMES:
        os.mkfifo(tmp_path / name)

    segments = Segments(tmp_path, rank=0, host="node-a", process=100, started=1000.0)
    segments.turn_over()
    segments.write({"turn": 0})
    segments.close()

    assert (tmp_path / NAMES[0]).read_text() == '{"turn":0}\n'
