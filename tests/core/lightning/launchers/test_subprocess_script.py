"""Names of the dead ranks in the error of the rank that lost them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.core.lightning.conftest import Build
from tests.scripts import run_python
from torch.multiprocessing.spawn import ProcessContext, ProcessExitedException

from northbridge.errors import CollectiveError
from northbridge.lightning.launchers import name_dead_ranks, name_killed_ranks
from northbridge.lightning.strategies import parallel

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    scripts: list[subprocess.Popen[bytes]] = []

    def starting(code: str) -> subprocess.Popen[bytes]:
        scripts.append(subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE))
        return scripts[-1]

    yield starting
    for script in scripts:
        script.kill()
        script.communicate()


def told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_killed_rank_ends_the_traceback(start: Start) -> None:
    alive, killed = start("input()"), start("input()")
    error = RuntimeError("Connection closed by peer")
    killed.kill()

    name_dead_ranks(error, SimpleNamespace(procs=[alive, killed]), rank=0)

    assert told(error) == (
        f"RuntimeError: Connection closed by peer\nrank 2 (process {killed.pid}) was killed by SIGKILL\n"
    )


def test_raising_rank_is_named_by_its_global_number(start: Start) -> None:
    raised = start("raise SystemExit(3)")
    error = RuntimeError("Connection closed by peer")

    name_dead_ranks(error, SimpleNamespace(procs=[raised]), rank=4)

    assert f"rank 5 (process {raised.pid}) ended with exit code 3; its error is printed above" in told(error)


@pytest.mark.parametrize("kind", [RuntimeError, CollectiveError])
def test_rank_that_left_early_is_named(start: Start, kind: type[Exception]) -> None:
    """The user's code may exit in the middle of the training, without an error."""
    done, alive = start("pass"), start("input()")
    done.wait()
    error = kind("it did not answer")

    name_dead_ranks(error, SimpleNamespace(procs=[done, alive]), rank=0)

    named = f"rank 1 (process {done.pid}) ended with exit code 0, before this rank"
    assert told(error).endswith(f"Error: it did not answer\n{named}\n")


@pytest.mark.parametrize(
    "launcher", [None, SimpleNamespace(), SimpleNamespace(procs=[]), SimpleNamespace(procs=[multiprocessing.Process()])]
)
def test_without_scripts_nobody_is_named(launcher: object) -> None:
    error = RuntimeError("Connection closed by peer")

    name_dead_ranks(error, launcher, rank=0)

    assert told(error) == "RuntimeError: Connection closed by peer\n"


def test_an_error_that_no_lost_rank_can_cause_is_left_as_it_is(start: Start) -> None:
    killed = start("input()")
    killed.kill()
    killed.wait()
    error = KeyboardInterrupt()

    name_dead_ranks(error, SimpleNamespace(procs=[killed]), rank=0)

    assert told(error) == "KeyboardInterrupt\n"


def waited_for(*codes: int) -> BaseException:
    """Return the error of torch's wait for ended processes with these exit codes, of which it saw the second first."""
    pipes = [os.pipe() for _ in codes]
    os.close(pipes[1][1])
    processes = [
        SimpleNamespace(sentinel=pipe[0], pid=100 + each, exitcode=code, join=lambda *_: None, is_alive=lambda: False)
        for each, (code, pipe) in enumerate(zip(codes, pipes, strict=True))
    ]
    with pytest.raises(ProcessExitedException) as ended:
        ProcessContext(processes, ["/no/such/file"] * len(codes)).join()  # type: ignore[no-untyped-call]  # torch's
    for each in {end for pipe in pipes for end in pipe} - {pipes[1][1]}:
        os.close(each)
    return ended.value


def test_all_killed_ranks_are_named_by_the_parent() -> None:
    error = waited_for(-signal.SIGKILL, -signal.SIGKILL, 1, -signal.SIGSEGV, -signal.SIGTERM)

    name_killed_ranks(error, rank=8)

    assert told(error).splitlines()[-4:] == [
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        "rank 8 (process 100) was killed by SIGKILL",
        "rank 9 (process 101) was killed by SIGKILL",
        "rank 11 (process 103) was killed by SIGSEGV",
    ]


def test_ranks_that_torch_killed_after_an_error_are_not_named() -> None:
    error = waited_for(-signal.SIGKILL, 1)

    name_killed_ranks(error, rank=0)

    assert "was killed" not in told(error)


TRAINED = """
import subprocess, sys
from types import SimpleNamespace
from northbridge.launch.process_group import note_failure
from northbridge.lightning import launchers

launchers.END_SECONDS = 0.5 if sys.argv[1] == "leaves" else 30.0
launchers.end_as_ranks_end()
procs = [subprocess.Popen([sys.executable, "-c", code]) for code in sys.argv[2:]]
launchers.note_scripts(SimpleNamespace(procs=procs), 0)
print([each.pid for each in procs])
if sys.argv[1] == "caught":
    note_failure()
if sys.argv[1] == "fails":
    raise SystemError("rank 0 failed")
"""
KILLED, WELL, HANGS = "import os; os.kill(os.getpid(), 9)", "pass", "import time; time.sleep(5)"
ENDS = {
    "killed": (["", WELL, KILLED], 1, ["rank 2 (process {1}) was killed by SIGKILL; this run ends with exit code 1"]),
    "exit code": (["", "exit(3)"], 3, ["rank 1 (process {0}) ended with exit code 3; this run ends with exit code 3"]),
    "well": (["", WELL, WELL], 0, []),
    "outlives": (["leaves", HANGS], 0, ["rank 1 (process {0}) still runs after 0.5 s, and is left alone"]),
    "caught": (["caught", KILLED], 0, []),
    "rank 0 fails": (["fails", KILLED], 1, ["SystemError: rank 0 failed"]),
}


@pytest.mark.parametrize(("arguments", "code", "named"), ENDS.values(), ids=ENDS)
def test_run_ends_as_its_ranks(tmp_path: Path, arguments: list[str], code: int, named: list[str]) -> None:
    """A rank may die after the last collective, when no other rank can notice."""
    ran = run_python("-c", TRAINED, *arguments, folder=tmp_path)

    assert ran.returncode == code
    assert ran.stdout.startswith("["), ran.stderr  # what was printed is written
    pids = json.loads(ran.stdout)
    said = ran.stderr.splitlines()
    assert said[-1:] == [each.format(*pids) for each in named]


def test_ranks_are_told_after_their_ends_are_known(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered last happens first, and the end for a failed rank may be at once."""
    called: list[str] = []
    monkeypatch.setattr(parallel, "end_with_launcher", lambda **_: called.append("tell"))
    monkeypatch.setattr(parallel, "end_as_ranks_end", lambda: called.append("end"))

    build(accelerator="cpu_sim", devices=2, strategy="ddp")

    assert called == ["tell", "end"]
