"""`northbridge hang`: what a user reads, and what a script is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.core.command import flowing
from tests.core.flight_recorder.files import (
    call_record,
    end_record,
    finished,
    group_record,
    place_record,
    rank_record,
    write,
)
from typer.testing import CliRunner, Result

from northbridge.cli.app import app


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """The folder of two ranks, of which the second has not called what the first waits in."""
    finished(tmp_path, 1, 1)
    calls = [call_record(1), end_record(1), call_record(2)]
    write(tmp_path, rank_record(0), group_record(), place_record(), *calls)
    return tmp_path


def hang(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["hang", *arguments], env={"COLUMNS": "100"})


def test_it_says_who_waits_for_whom_and_where(hanging: Path) -> None:
    run = hang(str(hanging))

    assert run.exit_code == 1
    assert "2 of 2 ranks have written; 3 calls are kept" in run.stdout
    assert "rank 1 of group 0 (default_pg, ranks 0, 1) has not called #2 all_reduce (float32 [4])" in flowing(
        run.stdout
    )
    assert "the last call of rank 1 was #1 all_reduce (float32 [4]), at train.py:3 in fit" in flowing(run.stdout)


def test_where_nobody_waits_it_says_so_and_succeeds(tmp_path: Path) -> None:
    """A damaged file is named, and no success."""
    path = finished(tmp_path, 0, 2)
    finished(tmp_path, 1, 2)

    run = hang(str(tmp_path))
    assert (run.exit_code, run.stdout.splitlines()[-1]) == (0, "No rank waits.")
    path.write_bytes(path.read_bytes() + b"damaged\n")
    run = hang(str(tmp_path))
    assert run.exit_code == 1
    assert f"{path.name} is damaged in line 8" in run.stdout.replace("\n", "")


def test_a_script_gets_one_json_object(hanging: Path) -> None:
    run = hang(str(hanging), "--json")

    told = json.loads(run.stdout)
    (finding,) = told["findings"]
    assert (run.exit_code, told["world_size"], told["ranks"]) == (1, 2, [0, 1])
    assert (finding["kind"], finding["blamed"], finding["waiting"]) == ("not called", [1], [0])


def test_a_wrong_folder_is_wrong_usage(tmp_path: Path) -> None:
    run = hang(str(tmp_path / "nothing"))

    assert run.exit_code == 2
    assert "is not a folder" in run.stderr
    assert "Traceback" not in run.stderr
