"""The files of a folder: cut short, damaged, of other runs and versions; and `northbridge hang`, which reads them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
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
from northbridge.flight_recorder.analysis.record_files import FolderError, read_folder
from northbridge.flight_recorder.records import Segments


def test_a_call_has_its_group_its_place_and_its_end(tmp_path: Path) -> None:
    frames = [
        ("torch.distributed.distributed_c10d", "/venv/torch/distributed/distributed_c10d.py", 3245, "all_reduce"),
        ("northbridge_acme.collective", "/venv/northbridge_acme/collective.py", 9, "all_reduce"),
        ("lightning.pytorch.trainer.trainer", "/venv/lightning/trainer.py", 5, "fit"),
        ("threading", "/usr/lib/threading.py", 1, "run"),
        ("my.training", "/home/me/my/training.py", 42, "training_step"),
        ("__main__", "/home/me/main.py", 7, "<module>"),
    ]
    write(tmp_path, rank_record(0), group_record(), place_record(*frames), call_record(1), end_record(1))

    (call,) = read_folder(tmp_path).logs[0].calls

    assert (call.group.ranks, str(call), call.how) == ((0, 1), "#1 all_reduce (float32 [4])", "finished")
    assert call.place == "/home/me/my/training.py:42 in training_step"
    place = place_record(("torch.a", "a.py", 1, "f"), ("torch.b", "b.py", 2, "g"))  # of libraries alone
    write(tmp_path, rank_record(1), group_record(), place, call_record(1))
    assert read_folder(tmp_path).logs[1].calls[0].place == "a.py:1 in f"


DAMAGED = ["\x00\u00ff\n", "[]\n", '{"kind":"call","call":"many"}\n', '{"kind":"acme"}\n']


@pytest.mark.parametrize("line", ['{"kind":"call","ca', *DAMAGED])  # the first is the last line, unfinished
def test_lines_before_damage_are_read(tmp_path: Path, line: str) -> None:
    path = finished(tmp_path, 0, 2)
    path.write_bytes(path.read_bytes() + line.encode("latin-1"))

    run = read_folder(tmp_path)

    assert len(run.logs[0].calls) == 2
    damage = f"{path} is damaged in line 8: only the lines before it are used"
    assert run.damages == ((damage,) if line in DAMAGED else ())


def test_a_file_of_another_version_is_left_out_and_named(tmp_path: Path) -> None:
    other = write(tmp_path, rank_record(0, format=2))
    finished(tmp_path, 1, 1)

    run = read_folder(tmp_path)

    assert list(run.logs) == [1]
    assert run.damages == (f"{other} was not written by this version of the flight recorder: it is left out",)


def test_two_files_of_one_rank_are_one_record(tmp_path: Path) -> None:
    about = rank_record(0)
    segments = Segments(tmp_path, rank=0, host="node-a", process=100, started=1000.0)
    for turn in range(3):
        segments.turn_over()
        segments.write(about, group_record(counts={"": 2 * turn}), place_record())
        segments.write(call_record(2 * turn + 1), call_record(2 * turn + 2), end_record(2 * turn))
    segments.close()

    log = read_folder(tmp_path).logs[0]

    assert len(list(tmp_path.iterdir())) == 2
    assert [call.number for call in log.calls] == [3, 4, 5, 6]
    assert [call.how for call in log.calls] == ["waiting", "finished", "waiting", "waiting"]
    assert list(log.counts.values()) == [6]


def test_the_newest_run_is_read_and_the_others_are_counted(tmp_path: Path) -> None:
    for rank in (0, 1):
        finished(tmp_path, rank, 9, run="old", started=10.0, process=7)
        finished(tmp_path, rank, 3, run="new")
    old = tmp_path.glob("rank-*.node-a.7.*")
    for path in old:  # its calls were long ago
        path.write_text(path.read_text().replace('"at":100', '"at":50'))

    run = read_folder(tmp_path)

    assert [len(log.calls) for log in run.logs.values()] == [3, 3]
    assert run.left_out == 2


def test_rank_without_a_call_belongs_to_its_address(tmp_path: Path) -> None:
    finished(tmp_path, 0, 3)
    write(tmp_path, rank_record(1, run=""))
    write(tmp_path, rank_record(1, run="", process=5, meeting="127.0.0.1:9"))
    write(tmp_path, rank_record(1, run="", process=6, restart="1"))

    run = read_folder(tmp_path)

    assert sorted(run.logs) == [0, 1]
    assert run.logs[1].process == 101


def test_a_folder_without_records_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"has no .* files"):
        read_folder(tmp_path)
    with pytest.raises(FolderError, match=r"is not a folder\. Fix: name the recorder's folder"):
        read_folder(tmp_path / "nothing")
    finished(tmp_path, 0, 1).write_bytes(b"damaged\n")
    with pytest.raises(FolderError, match="is damaged in line 1"):
        read_folder(tmp_path)


NAMES = ("rank-0.node-a.100.1000000.0.flight.jsonl", "rank-0.node-a.100.1000000.1.flight.jsonl")


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to, None], ids=["symbolic", "hard", "pipe"])
def test_what_is_in_its_place_stays_as_it_is(tmp_path: Path, make: Callable[[Path, Path], None] | None) -> None:
    """What a link leads to, and a pipe holds nobody up."""
    victim = tmp_path / "victim"
    victim.write_text("somebody's")
    for name in NAMES:
        make(tmp_path / name, victim) if make else os.mkfifo(tmp_path / name)

    segments = Segments(tmp_path, rank=0, host="node-a", process=100, started=1000.0)
    for turn in range(4):
        segments.turn_over()
        segments.write({"turn": turn})
    segments.close()

    assert victim.read_text() == "somebody's"
    assert [(tmp_path / name).read_text() for name in NAMES] == ['{"turn":2}\n', '{"turn":3}\n']


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

    said = flowing(run.stdout)
    assert run.exit_code == 1
    assert "2 of 2 ranks have written; 3 calls are kept" in said
    assert "rank 1 of group 0 (default_pg, ranks 0, 1) has not called #2 all_reduce (float32 [4])" in said
    assert "the last call of rank 1 was #1 all_reduce (float32 [4]), at train.py:3 in fit" in said


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
    run = hang(str(tmp_path / "nothing"))
    assert run.exit_code == 2
    assert "is not a folder" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_script_gets_one_json_object(hanging: Path) -> None:
    run = hang(str(hanging), "--json")

    told = json.loads(run.stdout)
    (finding,) = told["findings"]
    assert (run.exit_code, told["world_size"], told["ranks"]) == (1, 2, [0, 1])
    assert (finding["kind"], finding["blamed"], finding["waiting"]) == ("not called", [1], [0])
