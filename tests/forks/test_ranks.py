"""A rank that Lightning starts as a script is the same, forked or started afresh."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.forks.conftest import Begin

# Its ranks are started as Lightning's launcher starts them.
PROGRAM = """
import json, os, signal, subprocess, sys
import torch

def start(**variables):
    command = [sys.executable, os.path.abspath(sys.argv[0])] + sys.argv[1:]
    return subprocess.Popen(command, env={**os.environ, "LOCAL_RANK": "1", **variables}, cwd=None)

def tell(**more):
    files = [os.path.realpath(f"/proc/self/fd/{number}") for number in (0, 1, 2)]
    told = {"path": sys.path, "arguments": [sys.argv, sys.orig_argv], "folder": os.getcwd(), "files": files}
    told |= {"session": os.getsid(0) == int(os.environ["FIRST"]), "group": os.getpgid(0) == int(os.environ["FIRST"])}
    told |= {"parent": os.getppid() == int(os.environ["FIRST"]), "name": __name__}
    told |= {"signals": [str(signal.getsignal(each)) for each in sorted(signal.valid_signals())]}
    os.write(1, (json.dumps({**told, **more}) + "\\n").encode())
"""
TOLD = """
if "LOCAL_RANK" in os.environ:
    tell(variable=os.environ.get("OF_THE_RANK"), descriptors=len(os.listdir("/proc/self/fd")))
    sys.exit(5)
os.chdir("scripts")
os.environ["FIRST"] = str(os.getpid())
rank = start(OF_THE_RANK="yes")
print(rank.wait(), isinstance(rank, subprocess.Popen), flush=True)
"""
KILLED = """
if "LOCAL_RANK" in os.environ:
    signal.pause()
rank = start()
first = rank.poll()
rank.send_signal(signal.SIGTERM)
print(first, rank.wait())
"""
WHO_IMPORTED = """
print(torch.imported_by, flush=True)
if "LOCAL_RANK" not in os.environ:
    os.environ.update(json.loads(sys.argv[1]))
    start().wait()
    subprocess.run([sys.executable, "-c", "import torch; print(torch.imported_by)"])
"""
LEFT = """
if "LOCAL_RANK" in os.environ:
    signal.pause()
start()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def told_torch(modules: Path, quick_torch: dict[str, str]) -> dict[str, str]:
    """The environment of a process whose torch says which process imported it."""
    (modules / "torch/__init__.py").write_text("import os\nimported_by = os.getpid()\n")
    return {**quick_torch, "READ_BY_TORCH": "1"}


def test_it_finds_what_one_finds_that_was_started_afresh(
    begin: Begin, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    said: list[Any] = []
    for ranks in (False, True):
        process = begin("fork", PROGRAM + TOLD, quick_torch, "a", "b", script=True, starts_ranks=ranks)
        assert process.wait() == 0, (tmp_path / "fork.txt").read_text()
        said.append((tmp_path / "fork.txt").read_text().splitlines())

    (afresh, ended), (forked, has_ended) = said
    assert json.loads(forked) == json.loads(afresh)
    assert json.loads(forked)["variable"] == "yes"
    assert (ended, has_ended) == ("5 True", "5 True")


def test_a_signal_reaches_it_and_is_seen_in_its_exit_code(
    begin: Begin, quick_torch: dict[str, str], tmp_path: Path
) -> None:
    assert begin("fork", PROGRAM + KILLED, quick_torch, script=True, starts_ranks=True).wait() == 0
    assert (tmp_path / "fork.txt").read_text() == "None -15\n"


@pytest.mark.parametrize(
    ("changed", "forked"),
    [({}, True), ({"NEW": "1"}, True), ({"READ_BY_TORCH": "2"}, False)],
    ids=["none", "a new one", "one that torch may have read"],
)
def test_it_is_a_fork_unless_a_variable_was_changed(
    begin: Begin, told_torch: dict[str, str], tmp_path: Path, changed: dict[str, str], forked: bool
) -> None:
    program = begin("fork", PROGRAM + WHO_IMPORTED, told_torch, json.dumps(changed), script=True, starts_ranks=True)

    assert program.wait() == 0
    first, rank, other = (tmp_path / "fork.txt").read_text().split()
    assert (rank == first) is forked
    assert other != first  # a process that is not a rank is started afresh


def test_none_is_left_once_the_group_is_killed(begin: Begin, quick_torch: dict[str, str]) -> None:
    process = begin("fork", PROGRAM + LEFT, quick_torch, script=True, starts_ranks=True)
    assert process.wait() == -9

    os.killpg(process.pid, 9)

    _wait_for_end(process.pid)


def test_what_forks_them_ends_with_the_first(begin: Begin, quick_torch: dict[str, str]) -> None:
    process = begin("fork", "", quick_torch, script=True, starts_ranks=True)
    assert process.wait() == 0

    _wait_for_end(process.pid)


def _wait_for_end(group: int) -> None:
    until = time.monotonic() + 30
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.killpg(group, 0)
            time.sleep(0.01)
        raise AssertionError(f"group {group} is still there")


@pytest.mark.parametrize("variable", ["RANK", "LOCAL_RANK", "SLURM_PROCID"])
def test_lightning_has_another_rank_of_each_process(begin: Begin, tmp_path: Path, variable: str) -> None:
    tell = "from lightning.fabric.utilities.rank_zero import rank_zero_only\nprint(rank_zero_only.rank)\n"
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    said = []
    for late in ({}, {variable: "3"}):
        assert begin("fork", tell, environ, late=late, imported=("lightning",)).wait() == 0
        said.append((tmp_path / "fork.txt").read_text())

    assert said == ["0\n", "3\n"]
