"""Ranks whose launching process is gone."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.scripts import start_python

from northbridge.launch import parent_watch

USER = """
import os, signal, sys, time
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from northbridge.lightning.pytorch import DDPStrategy

if "LOCAL_RANK" not in os.environ:
    # Rank 0 starts the others and is killed before it takes part.
    DDPStrategy.setup_environment = lambda strategy: os.kill(os.getpid(), signal.SIGKILL)
else:
    print(f"rank 1 is process {os.getpid()}", flush=True)

if __name__ == "__main__":
    trainer = Trainer(accelerator="cpu_sim", devices=2, max_epochs=1, logger=False, enable_checkpointing=False)
    trainer.fit(BoringModel())
"""

LAST_WORDS = """
import os, socket, subprocess, sys, threading
from types import SimpleNamespace
from northbridge.processes.environment import children_listen
from northbridge.launch.parent_watch import end_with_launcher

if "LOCAL_RANK" in os.environ and sys.argv[1] == "met":
    import torch.distributed as dist
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
end_with_launcher(starts_ranks="LOCAL_RANK" not in os.environ)
if "LOCAL_RANK" not in os.environ:
    # The first process ends once its rank is there, which goes on for a while.
    ours, ranks = socket.socketpair()
    with children_listen():
        environ = {**os.environ, "LOCAL_RANK": "1", "SOCKET": str(ranks.fileno())}
    subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env=environ, pass_fds=[ranks.fileno()])
    ranks.close()
    ours.recv(1)
    if sys.argv[2] == "fails":
        raise SystemError("rank 0 has given up")
    if sys.argv[2] == "another rank fails":
        from northbridge.lightning import launchers
        launchers.end_as_ranks_end()
        launchers.note_scripts(SimpleNamespace(procs=[subprocess.Popen([sys.executable, "-c", "exit(3)"])]), 1)
else:
    with socket.socket(fileno=int(os.environ["SOCKET"])) as launcher:
        launcher.send(b"!")
        launcher.recv(1)  # it comes to an end with the launcher
    (watch,) = (each for each in threading.enumerate() if each.name == "launcher")
    watch.join()  # it has seen that, and decided
    sys.stdin.read()
    print("the rank has done its work", flush=True)
"""


def test_a_rank_that_waits_for_a_killed_rank_0_ends_and_says_why(tmp_path: Path) -> None:
    """What the killed process leaves is removed when the ranks have read it."""
    (tmp_path / "train.py").write_text(USER)
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    start = time.monotonic()
    environ = {**os.environ, "TMPDIR": str(temporary)}
    with start_python("train.py", folder=tmp_path, environ=environ, stderr=subprocess.STDOUT) as run:
        said, _ = run.communicate(timeout=120)  # the pipe ends with the last process that holds it

    assert run.returncode == -signal.SIGKILL
    assert re.search(r"rank 1 is process \d+", said)
    assert "the process that started this rank was killed, and this rank ends with it" in said
    assert time.monotonic() - start < 90
    (left,) = temporary.glob("northbridge-launcher-*")
    parent_watch._sweep(temporary)
    assert not left.read_text()  # it was killed just now: a rank may still look for it
    for word in ("was killed", None):
        os.utime(left, times=(0, 0))
        parent_watch._sweep(temporary)
        assert (left.read_text() if left.exists() else None) == word


ENDED = "the process that started this rank {}, and this rank ends with it\n"


@pytest.mark.parametrize(
    ("met", "how", "code", "said"),
    [
        ("met", "ends well", 0, ["the rank has done its work\n"]),
        ("alone", "ends well", 0, [ENDED.format("ended before the ranks had met")]),
        ("met", "fails", 1, ["SystemError: rank 0 has given up", ENDED.format("failed")]),
        # After the training, when no collective tells it: rank 0 ends for the other rank.
        (
            *("met", "another rank fails", 3),
            ["ended with exit code 3; this run ends with exit code 3\n", ENDED.format("failed")],
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_rank_of_a_launcher_that_has_ended(tmp_path: Path, met: str, how: str, code: int, said: list[str]) -> None:
    (tmp_path / "last.py").write_text(LAST_WORDS)
    with start_python("last.py", met, how, folder=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.STDOUT) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.wait(60) == code
        first.stdin.close()
        printed = first.stdout.read()

    assert all(each in printed for each in said)
    assert printed.endswith(said[-1])
    assert printed == said[0] or len(said) > 1


def test_process_that_ends_during_the_look_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", Mock(side_effect=ProcessLookupError))

    assert not parent_watch._is_running(os.getpid()) or not Path("/proc/self/stat").exists()


def test_living_process_word_is_not_removed(tmp_path: Path) -> None:
    alive = tmp_path / "northbridge-launcher-x"
    with alive.open("w") as file:
        parent_watch._lock(file.fileno())
        os.utime(alive, times=(0, 0))

        parent_watch._sweep(tmp_path)
        parent_watch._sweep(tmp_path)

        assert alive.exists()


HOSTILE: dict[str, Callable[[Path], object]] = {
    "no text": lambda place: place.write_bytes(b"\xff"),
    "huge": lambda place: os.truncate(os.open(place, os.O_CREAT | os.O_WRONLY), 8 * 2**30),
    "link": lambda place: place.symlink_to(place.with_name("victim")),
    "hard link": lambda place: place.hardlink_to(place.with_name("victim")),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_file_in_the_shared_folder_harms_nothing(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """It is neither read whole, nor waited for, nor followed to where it leads; a launch goes on."""
    victim = tmp_path / "victim"
    victim.touch()
    place = tmp_path / "northbridge-launcher-x"
    make(place)
    for each in (victim, place):
        os.utime(each, times=(0, 0))

    tracemalloc.start()
    parent_watch._sweep(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert victim.read_text() == ""
    assert peak < 2**20
    assert parent_watch._Watch(1, place)._how_it_ended(True) in ("", "was killed")


def test_a_file_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "northbridge-launcher-x"
    left.touch()
    os.utime(left, times=(0, 0))
    monkeypatch.setattr(os, "geteuid", Mock(return_value=os.geteuid() + 1))

    parent_watch._sweep(tmp_path)

    assert left.read_text() == ""
    assert parent_watch._Watch(1, left)._how_it_ended(True) == ""


PARENT = """
import multiprocessing, os, signal, sys, time
from northbridge.launch.parent_watch import end_with_parent

def work():
    with end_with_parent():
        print("the rank works", flush=True)
        time.sleep(60)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for a script that is started with &
    context = multiprocessing.get_context(sys.argv[1])
    rank = context.Process(target=work)
    rank.start()
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_rank_of_a_killed_parent_ends(tmp_path: Path, method: str) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    with start_python("parent.py", method, folder=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.STDOUT) as parent:
        assert parent.stdin
        assert parent.stdout
        assert parent.stdout.readline() == "the rank works\n"
        parent.stdin.close()
        said = parent.stdout.read()  # it ends with the last process that has the pipe

    assert said.startswith("the process that started this rank ended, and this rank ends with it\n")


def test_rank_that_is_done_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def names() -> set[str]:
        return {each.name for each in threading.enumerate()}

    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(pid=os.getppid()))

    with parent_watch.end_with_parent():
        assert "launcher" in names()
    assert "launcher" not in names()
