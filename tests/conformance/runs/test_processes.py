"""The processes of a run: their environment and ports, the stacks of one that hangs, and those that outlive it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType, SimpleNamespace

import pytest
from tests.scripts import is_alive
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from northbridge.errors import UnsupportedError
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs import processes, work
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
)
from northbridge_conformance.runs.scenario import Scenario, read, reference, write
from northbridge_conformance.runs.work import main
from northbridge_conformance.suite import BASICS, USES
from northbridge_conformance.tests.collective.ranks import STEPS


@pytest.mark.parametrize(("variable", "is_read"), [("OMP_NUM_THREADS", True), ("LD_PRELOAD", True), ("ACME_X", False)])
def test_variables_of_other_software(variable: str, is_read: bool) -> None:
    assert is_read_by_others(variable) is is_read


def test_ranks_have_one_thread_and_no_launchers_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    of_launchers = ("RANK", "GROUP_RANK", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID", "_NORTHBRIDGE_LAUNCHER")
    kept = ("PATH", "PYTHONPATH", "NORTHBRIDGE_SIMULATE")
    for name in (*of_launchers, *kept, "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "7")

    found = environ_of_runs()

    assert (found["OMP_NUM_THREADS"], found["OPENBLAS_NUM_THREADS"]) == ("1", "1")
    assert [name for name in (*of_launchers, *kept) if name in found] == [*kept]


def test_nobody_else_gets_it_who_asks_for_any_port() -> None:
    """But a rank listens there; and no more are held than a process may have files open."""
    first, *reserved = [reserve_port() for _ in range(MOST_HELD + 1)]

    given = set()
    for _ in range(30_000):  # twice as many as there are
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            given.add(other.getsockname()[1])

    assert not {*reserved} & given
    assert len({*reserved}) == MOST_HELD
    assert TCPStore("127.0.0.1", reserved[-1], 1, is_master=True).port == reserved[-1]
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
    """None is left of the group, nor of those that have left it."""
    said = collect_stacks(hanging.pid, tmp_path)

    first, second = re.split(r"^(?=rank 4)", said, flags=re.MULTILINE)
    assert first.startswith(f"rank 3 (process {hanging.pid}):\n")
    assert "in wait_for_the_others" in first
    assert "in wait_for_the_others" in second
    assert hanging.poll() is None
    (found,) = re.findall(r"rank 4 \(process (\d+)\)", said)
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


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a step do something, and report it."""

    def add(name: str, perform: Callable[[], object]) -> None:
        def perform_and_tell(_scenario: Scenario, folder: Path) -> None:
            perform()
            write(folder, name, 0, {})

        module = sys.modules.get("posing") or ModuleType("posing")
        setattr(module, name, perform_and_tell)
        monkeypatch.setitem(sys.modules, "posing", module)

    return add


def refuse() -> None:
    raise UnsupportedError("acme does not train", capability="fit")


def fail() -> None:
    raise ValueError("out of luck")


@pytest.mark.parametrize("devices", [1, 2])
def test_after_a_refusal_the_ranks_go_on(step: Callable[..., None], tmp_path: Path, devices: int) -> None:
    step("pose", refuse)
    step("sleep", lambda: None)

    main(Scenario("acme", "", ("posing:pose", "posing:sleep"), devices), tmp_path)

    outcome = RunResult(tmp_path, read(tmp_path), "")
    assert outcome.ranks("sleep") == [{}]
    with pytest.raises(UnsupportedError, match="acme does not train"):
        outcome.ranks("pose")


@pytest.mark.parametrize("devices", [1, 2])
def test_processes_end_with_a_failed_step(
    step: Callable[..., None], tmp_path: Path, capfd: pytest.CaptureFixture[str], devices: int
) -> None:
    step("sleep", lambda: None)
    step("pose", fail)

    with pytest.raises(ValueError, match="out of luck"):
        main(Scenario("acme", "", ("posing:sleep", "posing:pose", "posing:sleep"), devices), tmp_path)

    assert list(read(tmp_path)) == ["sleep"]
    begun = [f"process {os.getpid()} begins the step {name}" for name in ("posing:sleep", "posing:pose")]
    assert capfd.readouterr().out.splitlines() == begun


def test_late_error_ends_its_own_step(
    step: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step("pose", lambda: None)
    step("sleep", lambda: None)
    monkeypatch.setattr(work, "loaded", lambda: SimpleNamespace(device=SimpleNamespace(synchronize=fail)))

    with pytest.raises(ValueError, match="out of luck"):
        main(Scenario("acme", "", ("posing:pose", "posing:sleep"), 2, launch="ranks"), tmp_path)

    assert list(read(tmp_path)) == ["pose"]


@pytest.mark.parametrize(
    "step", sorted({*STEPS, *(step for runs in (BASICS, USES) for steps in runs.values() for step in steps)})
)
def test_step_names_a_function(step: str) -> None:
    assert reference(resolve_name(step)) == step
