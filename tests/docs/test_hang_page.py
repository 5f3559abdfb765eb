"""docs/hang.md: a rank that hangs is told as the page shows it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.core.flight_recorder.files import call_record, end_record, group_record, place_record, rank_record, write
from tests.docs.page import PAGES, shows
from typer.testing import CliRunner

from northbridge.cli.app import app
from northbridge.processes.endings import this_machine


def test_a_hang_is_told_as_the_page_shows(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```text\n(4 of 4 ranks .*?)```", PAGES["docs/hang.md"].read_text(), flags=re.S)
    group = group_record(ranks=[0, 1, 2, 3])
    before = place_record(("__main__", "train.py", 40, "training_step"))
    gathers = [
        each
        for number in range(1, 17)
        for each in (
            call_record(number, operation="all_gather", tensors=[["float32", [1]]], elements=1),
            end_record(number),
        )
    ]
    place = {**place_record(("__main__", "train.py", 42, "training_step")), "place": 1}
    reduce = call_record(17, tensors=[["float32", [1024]]], elements=1024, place=1)
    for rank in range(4):
        # A process that began at another time than the one that has its number now is gone.
        about = rank_record(rank, world_size=4, machine=this_machine(), process=1, process_ticks=1)
        last = [] if rank == 2 else [place, reduce]
        write(tmp_path, about if rank == 2 else rank_record(rank, world_size=4), group, before, *gathers, *last)

    run = CliRunner().invoke(app, ["hang", str(tmp_path)], env={"COLUMNS": "100"})

    assert shows(run.stdout, shown), run.stdout
    assert run.exit_code == 1
