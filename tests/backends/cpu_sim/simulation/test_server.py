"""The cards of a simulated server, shared out among processes by their locked files."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.scripts import start_python

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


def test_a_card_that_nobody_has_is_free(tmp_path: Path) -> None:
    assert Server(tmp_path, 8).holder(3) is None


def test_the_file_of_a_card_holds_the_pid_of_its_holder(tmp_path: Path, hold: Hold) -> None:
    child = hold(3)

    assert (tmp_path / "accel" / "accel3").read_text() == str(child.pid)
    assert Server(tmp_path, 8).holder(3) == child.pid


def test_held_card_is_refused_with_its_pid(tmp_path: Path, hold: Hold) -> None:
    child = hold(3)

    with pytest.raises(CardTakenError) as caught:
        Server(tmp_path, 8).acquire(3)

    assert str(caught.value) == (
        f"card 3 was asked for, but process {child.pid} holds it. Fix: wait for its end, or take another card"
    )
    assert (caught.value.card, caught.value.pid) == (3, child.pid)


def test_the_error_survives_the_way_home_from_a_rank() -> None:
    sent = pickle.loads(pickle.dumps(CardTakenError(3, 17)))

    assert (sent.card, sent.pid, str(sent)) == (3, 17, str(CardTakenError(3, 17)))


def refusal(folder: Path) -> str:
    """Return the errors of acquiring a card and of asking for its holder, with a server in ``folder``."""
    server = Server(folder, 8, variable="ACME_SERVER")
    with pytest.raises(ServerError) as taking:
        server.acquire(3)
    with pytest.raises(ServerError) as asking:
        server.holder(3)
    assert str(asking.value) == str(taking.value)
    return str(taking.value)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others can guess the name of the default, and make it first."""
    Server(tmp_path / "server", 8).acquire(0)
    user = os.geteuid() or 1
    os.chown(tmp_path / "server", 1, -1) if os.geteuid() == 0 else None
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)

    assert refusal(tmp_path / "server") == (
        f"the simulated server cannot be used: {tmp_path / 'server'} belongs to user {user}, and this process is user"
        f" {user + 1}. Fix: set ACME_SERVER to a folder that only you can write"
    )


@pytest.mark.parametrize("inner", [".", "accel", "asked"])
def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path, inner: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "server" / inner
    if inner == ".":
        link = tmp_path / "server"
    else:
        (tmp_path / "server").mkdir(mode=0o700)
    link.symlink_to(elsewhere)

    with pytest.raises(ServerError, match=f"{link} is a symbolic link to {elsewhere}. Fix: name a folder that only"):
        Server(tmp_path / "server", 8).acquire(3)
    assert not list(elsewhere.iterdir())


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "server").touch(mode=0o600)

    assert f"{tmp_path / 'server'} is not a folder. Fix: set ACME" in refusal(tmp_path / "server")


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(ServerError) as raised:
        Server(Path("/proc/nosuch/server"), 8).acquire(3)

    assert str(raised.value) == (
        "the simulated server cannot be used: /proc/nosuch/server cannot be made (No such file or directory). Fix: name"
        " a folder that only you can write"
    )


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server").chmod(0o777)

    assert f"{tmp_path / 'server'} can be written by others (mode 777). Fix: set ACME" in refusal(tmp_path / "server")


def test_its_folders_are_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Server(tmp_path / "new" / "server", 8).acquire(2)
    finally:
        os.umask(before)

    made = [path for path in (tmp_path / "new").rglob("*") if path.is_dir()]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] * 3
    assert (tmp_path / "new" / "server" / "accel" / "accel2").stat().st_mode & 0o777 == 0o600


def test_another_card_and_another_server_are_free(tmp_path: Path, hold: Hold) -> None:
    hold(3)
    hold(4)
    hold(3, tmp_path / "another")

    assert Server(tmp_path, 8).holder(5) is None


def test_a_killed_process_leaves_its_card_free(tmp_path: Path, hold: Hold) -> None:
    child = hold(3)

    child.send_signal(signal.SIGKILL)
    child.wait()

    assert Server(tmp_path, 8).holder(3) is None
    assert hold(3).pid != child.pid


def test_a_process_may_take_its_card_twice(tmp_path: Path) -> None:
    Server(tmp_path, 8).acquire(6)
    Server(tmp_path, 8).acquire(6)

    assert Server(tmp_path, 8).holder(6) == os.getpid()


def test_looking_at_the_file_in_its_own_process_lets_nothing_go(tmp_path: Path) -> None:
    Server(tmp_path, 8).acquire(7)
    (tmp_path / "accel" / "accel7").read_text()
    asked = subprocess.run(
        [sys.executable, "-c", ASKER, str(tmp_path), "7"], capture_output=True, text=True, check=True
    )

    assert asked.stdout == f"{os.getpid()}\n"


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
