"""The processes of a run: their environment and ports, the stacks of one that hangs, and those that outlive it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scripts import is_alive
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from northbridge_conformance.runs import processes
from northbridge_conformance.runs.processes import (
    MOST_HELD,
    RUN,
    await_ends,
    collect_stacks,
    environ_of_runs,
    is_read_by_others,
    kill_group,
    kill_left,
    reserve_port,
    tells_of_a_launcher,
)


@pytest.mark.parametrize(
    "variable", ["RANK", "GROUP_RANK", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID", "_NORTHBRIDGE_LAUNCHER"]
)
def test_launchers_variables_do_not_reach_the_ranks(variable: str) -> None:
    assert tells_of_a_launcher(variable)


@pytest.mark.parametrize("variable", ["PATH", "PYTHONPATH", "NORTHBRIDGE_SIMULATE", "OMP_NUM_THREADS"])
def test_other_variables_do(variable: str) -> None:
    assert not tells_of_a_launcher(variable)


@pytest.mark.parametrize(("variable", "is_read"), [("OMP_NUM_THREADS", True), ("LD_PRELOAD", True), ("ACME_X", False)])
def test_variables_of_other_software(variable: str, is_read: bool) -> None:
    assert is_read_by_others(variable) is is_read


def test_ranks_of_the_suite_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("PATH", "/bin")

    found = environ_of_runs()

    assert (found["OMP_NUM_THREADS"], found["OPENBLAS_NUM_THREADS"], found.get("RANK"), found["PATH"]) == (
        "1",
        "1",
        None,
        "/bin",
    )


def test_a_rank_listens_there() -> None:
    port = reserve_port()

    store = TCPStore("127.0.0.1", port, 1, is_master=True)

    assert store.port == port


def test_nobody_else_gets_it_who_asks_for_any_port() -> None:
    reserved = {reserve_port() for _ in range(MOST_HELD)}

    given = set()
    for _ in range(30_000):  # twice as many as there are
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            given.add(other.getsockname()[1])

    assert not reserved & given
    assert len(reserved) == MOST_HELD


def test_no_more_are_held_than_a_process_may_have_files_open() -> None:
    first, *_ = [reserve_port() for _ in range(MOST_HELD + 1)]

    with socket.socket() as other:
        other.bind(("127.0.0.1", first))  # without SO_REUSEADDR


HANGS = """
import os
import subprocess
import sys
import time
from pathlib import Path

from northbridge_conformance.runs.processes import dump_stacks_when_asked

dump_stacks_when_asked(Path(sys.argv[1]))
if os.environ["RANK"] == "3":
    command = [sys.executable, "-c", sys.orig_argv[2], sys.argv[1]]
    subprocess.Popen(command, env={**os.environ, "RANK": "4"}, start_new_session=True)


def wait_for_the_others():
    Path(sys.argv[1], os.environ["RANK"]).touch()
    time.sleep(600)


wait_for_the_others()
"""


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that hangs as rank 3, with a child that hangs as rank 4 in a session of its own, as of torchrun's."""
    command = [sys.executable, "-c", HANGS, str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ, "RANK": "3"}, start_new_session=True) as process:
        try:
            until = time.monotonic() + 60
            while not ((tmp_path / "3").exists() and (tmp_path / "4").exists()):
                assert time.monotonic() < until
                assert process.poll() is None
                time.sleep(0.05)
            yield process
        finally:
            kill_group(process.pid)


def test_the_stack_of_each_rank_is_told(hanging: subprocess.Popen[bytes], tmp_path: Path) -> None:
    said = collect_stacks(hanging.pid, tmp_path)

    first, second = re.split(r"^(?=rank 4)", said, flags=re.MULTILINE)
    assert first.startswith(f"rank 3 (process {hanging.pid}):\n")
    assert "in wait_for_the_others" in first
    assert "in wait_for_the_others" in second
    assert hanging.poll() is None


def test_none_is_left_of_those_that_have_left_the_group(hanging: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (found,) = re.findall(r"rank 4 \(process (\d+)\)", collect_stacks(hanging.pid, tmp_path))

    kill_group(hanging.pid)
    hanging.wait()

    until = time.monotonic() + 60
    while is_alive(int(found)):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("place", [".", "/"], ids=["in the run's folder", "a daemon"])
def test_process_that_outlives_its_run_is_killed(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_LINGER_S", 0.2)
    environ = {**os.environ, RUN: str(tmp_path)} if place == "/" else os.environ
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path / place, env=environ, start_new_session=True) as process:
        while not Path(f"/proc/{process.pid}/environ").read_bytes():
            time.sleep(0.01)  # Popen returns a moment before Linux shows the variables of the new program

        assert await_ends(tmp_path) == ["sleep 60"]

        kill_left(tmp_path)

    assert process.returncode == -signal.SIGKILL
    assert await_ends(tmp_path) == []


def test_a_process_without_a_handler_is_not_asked(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            assert collect_stacks(process.pid, tmp_path) == ""
            assert process.poll() is None  # the signal would have ended it
        finally:
            process.kill()
