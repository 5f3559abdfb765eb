"""Records of ranks of any library, here Gloo on the CPU, which outlive the ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scripts import start_python

from northbridge.flight_recorder.analysis.calls import Call, RecordedRun
from northbridge.flight_recorder.analysis.judgement import judge
from northbridge.flight_recorder.analysis.record_files import read_folder
from northbridge_conformance.runs.processes import reserve_port

PROGRAMS = Path(__file__).with_name("rank_programs.py")
LIMIT_S = 120.0


def start(function: str, folder: Path, size: int = 1, **environ: str) -> list[subprocess.Popen[str]]:
    cluster = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(reserve_port()),
        "SECOND_PORT": str(reserve_port()),
        "WORLD_SIZE": str(size),
        "OMP_NUM_THREADS": "1",
        "NORTHBRIDGE_FLIGHT_RECORDER": str(folder),
    }
    return [
        start_python(
            str(PROGRAMS),
            function,
            environ={**os.environ, **cluster, "RANK": str(rank), **environ},
            stderr=subprocess.STDOUT,
        )
        for rank in range(size)
    ]


def said(ranks: list[subprocess.Popen[str]]) -> list[str]:
    try:
        outputs = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), "\n".join(outputs)
    return outputs


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[RecordedRun, list[str]]:
    """Return the records and the output of two ranks that made one call of each kind."""
    folder = tmp_path_factory.mktemp("flight")
    outputs = said(start("every_kind", folder, size=2))
    return read_folder(folder), outputs


def first(run: RecordedRun, tensors: str, rank: int = 0) -> Call:
    return next(call for call in run.logs[rank].calls if call.tensors == tensors)


def line_of(text: str) -> int:
    """Return the number of the line of the programs in which ``text`` is."""
    return 1 + next(place for place, line in enumerate(PROGRAMS.read_text().splitlines()) if text in line)


def test_every_rank_has_written_and_nobody_waits(recorded: tuple[RecordedRun, list[str]]) -> None:
    run, outputs = recorded

    judgement = judge(run, time.time())

    assert (list(run.logs), run.damages, judgement.findings) == ([0, 1], (), ())
    assert all(log.exited for log in run.logs.values())
    for output in outputs:  # what is refused stays the library's error
        assert "refused: " in output
        assert "flight_recorder" not in output


def test_a_call_is_told_with_its_shape_dtype_root_and_line(recorded: tuple[RecordedRun, list[str]]) -> None:
    """What DDP calls in C++, too, with the user's line."""
    run, _ = recorded
    gradients = next(call for call in run.logs[0].calls if call.tensors == "float32 [4]" and call.root is None)

    assert (first(run, "float32 [2, 3]").number, first(run, "int64 [4]").operation) == (1, "all_reduce")
    assert (first(run, "float32 [5]").operation, first(run, "float32 [5]").root) == ("broadcast", 1)
    assert gradients.operation == first(run, "float32 [7]").operation == "all_reduce"  # the last is functional
    for call, line in (
        (first(run, "float32 [2, 3]"), "torch.ones(2, 3)"),
        (first(run, "int64 [4]"), "torch.int64"),
        (gradients, ".backward()"),
    ):
        assert call.place.endswith(f"rank_programs.py:{line_of(line)} in every_kind")


def test_what_finished_and_what_failed_is_known(recorded: tuple[RecordedRun, list[str]]) -> None:
    run, _ = recorded

    collectives = [call for call in run.logs[0].calls if not call.channel.direction and call.how != "finished"]

    assert [(call.tensors, call.how) for call in collectives] == [("float32 [8]", "failed")]
    assert "ReduceOp.BAND" in collectives[0].why


def test_sends_and_groups_are_counted_apart(recorded: tuple[RecordedRun, list[str]]) -> None:
    run, _ = recorded
    send, receive = first(run, "float32 [6]"), first(run, "float32 [6]", rank=1)
    again, other = first(run, "float32 [9]").group, first(run, "float32 [1]").group

    assert (send.operation, send.channel.direction, send.channel.peer, send.channel.tag) == ("send", "send", 1, 3)
    assert (receive.operation, receive.channel.peer, receive.number) == ("recv", 0, 1)
    assert (again.name, again.life, again.ranks, first(run, "float32 [9]").number) == ("0", 2, (0, 1), 1)
    assert (other.life, other.ranks) == (1, (0, 1))
    assert other.name != again.name


def test_an_inner_group_has_the_ranks_of_its_outer_one(tmp_path: Path) -> None:
    said(start("over_the_host", tmp_path, size=2))

    run = read_folder(tmp_path)

    groups = [first(run, "float32 [3, 2]").group, first(run, "float32 [4]", rank=1).group]
    assert [group.ranks for group in groups] == [(0, 1), (1,)]
    assert [len(log.calls) for log in run.logs.values()] == [1, 2]


@pytest.fixture
def one_skips(tmp_path: Path) -> Iterator[tuple[Path, list[subprocess.Popen[str]]]]:
    """Two ranks, of which one waits in a call that the other does not make."""
    ranks = start("one_skips", tmp_path, size=2)
    deadline = time.monotonic() + LIMIT_S
    while sum(path.read_text().count('"kind":"call"') for path in tmp_path.glob("rank-*")) < 3:
        assert time.monotonic() < deadline
        assert all(rank.poll() is None for rank in ranks)
        time.sleep(0.1)
    yield tmp_path, ranks
    for rank in ranks:
        rank.kill()
        rank.communicate()


def test_waiting_ranks_are_known_hanging_stopped_or_killed(
    one_skips: tuple[Path, list[subprocess.Popen[str]]],
) -> None:
    folder, ranks = one_skips

    def finding() -> str:
        (found,) = judge(read_folder(folder), time.time()).findings
        assert (found.blamed, found.waiting, found.number) == ((1,), (0,), 2)
        return found.text

    assert "has not called #2 all_reduce (float32 [3])" in finding()
    assert "its process" not in finding()
    while "and it was later seen at" not in finding():
        time.sleep(0.5)
    assert f"rank_programs.py:{line_of('time.sleep')} in one_skips" in finding().partition("it was later seen at ")[2]
    ranks[1].send_signal(signal.SIGSTOP)
    os.waitpid(ranks[1].pid, os.WUNTRACED)
    assert f"its process {ranks[1].pid} is stopped" in finding()
    for rank in ranks:
        rank.kill()
        rank.wait()
    assert f"its process {ranks[1].pid} is gone, and was probably killed" in finding()


def test_the_last_calls_are_kept_in_two_files(tmp_path: Path) -> None:
    said(start("many_calls", tmp_path, NORTHBRIDGE_FLIGHT_RECORDER_CALLS="10"))

    (log,) = read_folder(tmp_path).logs.values()

    assert len(list(tmp_path.iterdir())) == 2
    assert [call.number for call in log.calls] == list(range(21, 36))


def test_a_disk_that_fills_up_is_told_once_and_training_goes_on(tmp_path: Path) -> None:
    (output,) = said(start("full_disk", tmp_path))

    assert output.count("the flight recorder has stopped, and the training goes on without it") == 1
    assert (
        f"without it: OSError: [Errno 28] No space left on device; what was recorded before is in {tmp_path}" in output
    )
    assert output.splitlines()[-1] == "trained [1.0, 1.0]"


def test_a_forked_child_has_files_of_its_own(tmp_path: Path) -> None:
    said(start("forked", tmp_path))

    assert sorted(path.read_text().count('"kind":"call"') for path in tmp_path.iterdir()) == [1, 3]


def test_unwritable_folder_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    (rank,) = start("many_calls", tmp_path / "file" / "folder")
    output, _ = rank.communicate(timeout=LIMIT_S)

    assert rank.returncode == 1
    assert output.splitlines()[-1] == (
        f"northbridge.errors.SettingsError: NORTHBRIDGE_FLIGHT_RECORDER='{tmp_path}/file/folder': cannot"
        f" write to {tmp_path}/file/folder: Not a directory. Fix: name another folder, or unset it"
    )
