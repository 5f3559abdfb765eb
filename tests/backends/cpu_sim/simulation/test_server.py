"""The cards of a simulated server, shared out among processes by their locked files."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.scripts import run_python, start_python

from northbridge_cpu_sim import CardTakenError, Server, ServerError

HOLDER = """
import sys
from pathlib import Path
from northbridge_cpu_sim import Server
Server(Path(sys.argv[1]), 8).acquire(int(sys.argv[2]))
print("taken", flush=True)
sys.stdin.read()
"""

ASKER = """
import sys
from pathlib import Path
from northbridge_cpu_sim import Server
print(Server(Path(sys.argv[1]), 8).holder(int(sys.argv[2])))
"""

FORKED = """
import os, sys
from pathlib import Path
from northbridge_cpu_sim import CardTakenError, Server
server = Server(Path(sys.argv[1]), 8)
server.acquire(2)
told, tell = os.pipe()
if os.fork() == 0:
    try:
        server.acquire(2)
    except CardTakenError as error:
        print(error.pid == os.getppid(), flush=True)
    os.write(tell, b"!")
    sys.stdin.read()
    os._exit(0)
os.read(told, 1)
os._exit(0)
"""

Hold = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """Start a process that holds a card until its stdin is closed."""
    started = []

    def hold(card: int, folder: Path = tmp_path) -> subprocess.Popen[str]:
        child = start_python("-c", HOLDER, str(folder), str(card), stdin=subprocess.PIPE, stderr=None)
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "taken\n"
        return child

    yield hold
    for child in started:
        child.kill()
        child.communicate()


def test_held_card_is_refused_with_its_pid(tmp_path: Path, hold: Hold) -> None:
    """Another card, and that card of another server, is free."""
    server = Server(tmp_path, 8)
    assert server.holder(3) is None

    child = hold(3)
    hold(4)
    hold(3, tmp_path / "another")

    assert (tmp_path / "accel" / "accel3").read_text() == str(child.pid)
    assert (server.holder(3), server.holder(5)) == (child.pid, None)
    with pytest.raises(CardTakenError) as caught:
        server.acquire(3)
    assert str(caught.value) == (
        f"card 3 was asked for, but process {child.pid} holds it. Fix: wait for its end, or take another card"
    )
    sent = pickle.loads(pickle.dumps(caught.value))  # from a rank
    assert (sent.card, sent.pid, str(sent)) == (3, child.pid, str(caught.value))


@pytest.mark.parametrize("inner", ["", "accel", "asked"])
def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path, inner: str) -> None:
    """Others can guess the name of the default, and make it first."""
    (elsewhere := tmp_path / "elsewhere").mkdir()
    link = tmp_path / "server" / inner
    link.parent.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(elsewhere)
    server = Server(tmp_path / "server", 8, variable="ACME_SERVER")

    for ask in (server.acquire, server.holder):
        with pytest.raises(ServerError) as raised:
            ask(3)
        assert str(raised.value) == (
            f"the simulated server cannot be used: {link} is a symbolic link to {elsewhere}. Fix: set ACME_SERVER to a"
            " folder that only you can write"
        )
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(
    ("folder", "said"),
    [("{}/file", "is not a folder"), ("/proc/nosuch/server", "cannot be made (No such file or directory)")],
)
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, folder: str, said: str) -> None:
    (tmp_path / "file").touch(mode=0o600)
    server = Path(folder.format(tmp_path))

    with pytest.raises(ServerError) as raised:
        Server(server, 8).acquire(3)

    assert str(raised.value) == (
        f"the simulated server cannot be used: {server} {said}. Fix: name a folder that only you can write"
    )


def test_its_folders_are_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Server(tmp_path / "new" / "server", 8).acquire(2)
    finally:
        os.umask(before)

    made = [path for path in (tmp_path / "new").rglob("*") if path.is_dir()]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] * 3
    assert (tmp_path / "new" / "server" / "accel" / "accel2").stat().st_mode & 0o777 == 0o600


def test_a_killed_process_leaves_its_card_free(tmp_path: Path, hold: Hold) -> None:
    child = hold(3)
    child.send_signal(signal.SIGKILL)
    child.wait()

    assert Server(tmp_path, 8).holder(3) is None
    assert hold(3).pid != child.pid


def test_reading_the_file_in_its_own_process_keeps_the_card(tmp_path: Path) -> None:
    """So does taking the card once more."""
    for _ in range(2):
        Server(tmp_path, 8).acquire(7)
    (tmp_path / "accel" / "accel7").read_text()

    assert run_python("-c", ASKER, str(tmp_path), "7").stdout == f"{os.getpid()}\n"


def test_forked_child_holds_nothing(tmp_path: Path) -> None:
    parent = start_python("-c", FORKED, str(tmp_path), stdin=subprocess.PIPE, stderr=None)
    assert parent.stdout is not None
    assert parent.stdin is not None
    refused_to_the_child = parent.stdout.readline()
    parent.wait()
    held_by_the_child = Server(tmp_path, 8).holder(2)
    parent.stdin.close()
    parent.stdout.close()

    assert refused_to_the_child == "True\n"
    assert held_by_the_child is None


def test_of_many_threads_that_ask_at_once_none_is_refused(tmp_path: Path) -> None:
    refused = []

    def take() -> None:
        try:
            Server(tmp_path, 8).acquire(1)
        except CardTakenError as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert refused == []


@pytest.mark.parametrize("card", [-1, 8])
def test_a_card_that_the_server_lacks_is_refused(tmp_path: Path, card: int) -> None:
    with pytest.raises(ValueError, match=f"no card {card}: the server in .* has 8"):
        Server(tmp_path, 8).acquire(card)
