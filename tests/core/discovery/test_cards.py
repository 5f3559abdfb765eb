"""A vendor's cards: their number, the processes that use them, and the command that lists them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from tests.core.conftest import PlainBridge, make_backend
from tests.scripts import start_python

import northbridge
from northbridge import device_users
from northbridge.discovery.cards import counted_cards, on_cards


class AQuarter(PlainBridge):
    def count_cards(self, devices: Collection[int], *, total: int) -> int:
        return len({device // 4 for device in devices})


class Silent(PlainBridge):
    def count_cards(self, devices: Collection[int], *, total: int) -> int:
        raise northbridge.DetectionError("`acme-smi` did not answer", backend="acme")


def test_the_bridge_tells_how_many_cards() -> None:
    """By default a device is a card; unknown cards are recorded and stop nothing."""
    assert counted_cards(make_backend(), [3, 4], total=8) is None
    assert counted_cards(make_backend(bridge=AQuarter()), [3, 4], total=8) == 2
    assert counted_cards(make_backend("acme", bridge=Silent()), [0], total=1) is None
    assert northbridge.Entry("acme", "cards not counted", "`acme-smi` did not answer") in northbridge.record()


@pytest.mark.parametrize(("cards", "words"), [(None, ""), (1, " (1 card)"), (8, " (8 cards)")])
def test_cards_follow_the_number_of_devices(cards: int | None, words: str) -> None:
    assert on_cards(cards) == words


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files a process has open")


def pattern(folder: Path) -> re.Pattern[str]:
    return re.compile(re.escape(str(folder)) + r"/card(\d+)$")


def test_users_of_cards_are_found_with_their_commands(tmp_path: Path) -> None:
    """A command from deep folders still tells its script."""
    program = "file = open({!r}, 'w'); print('holds', flush=True); input()"
    script, short = tmp_path / ("deep" * 20) / "train.py", program.format(str(tmp_path / "card3"))
    script.parent.mkdir()
    script.write_text(program.format(str(tmp_path / "card0")))
    with (
        start_python("-c", short, stdin=subprocess.PIPE, stderr=None) as first,
        start_python(str(script), stdin=subprocess.PIPE, stderr=None) as second,
    ):
        for holder in (first, second):
            assert holder.stdout is not None
            assert holder.stdout.readline() == "holds\n"

        found = device_users(pattern(tmp_path))

        first.kill()
        second.kill()
    python = Path(sys.executable).name
    number, command = found.pop(first.pid)
    assert found == {second.pid: (0, f"{python} train.py")}
    assert number == 3
    assert command.startswith(f"{python} -c file = open(")
    assert command.endswith(" …")
    assert len(command) <= 80


def test_only_the_cards_of_ones_own_server_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
    simulation = northbridge.Simulation({}, dev=lambda: own)
    monkeypatch.setattr("northbridge.discovery.simulated._simulations", {"anvil": simulation})

    with open(own / "anvil1", "w"), open(other / "anvil2", "w"):
        found = device_users(re.compile(r"^/dev/anvil(\d+)$"))  # this process is one too

    assert {pid: number for pid, (number, _) in found.items()} == {os.getpid(): 1}


Tool = Callable[[str], None]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Install the command `acme-smi`, a shell script, for this process."""

    def install(script: str) -> None:
        file = tmp_path / "acme-smi"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


def ask(*arguments: str, limit_s: float = 10.0) -> str | None:
    return northbridge.run_tool("acme-smi", *arguments, backend="acme", limit_s=limit_s)


def refusal(limit_s: float = 10.0) -> str:
    with pytest.raises(northbridge.DetectionError) as caught:
        ask("-q", limit_s=limit_s)
    assert caught.value.backend == "acme"
    return str(caught.value)


@pytest.mark.parametrize(
    ("script", "printed"),
    [('echo "$1 $LC_ALL"; echo warned >&2', "-q C\nwarned\n"), ("printf 'card \\377'", "card \ufffd")],
    ids=["in the language of programs", "not text"],
)
def test_what_it_prints_is_returned(tool: Tool, script: str, printed: str) -> None:
    """One that is not installed is not an error."""
    assert ask() is None
    tool(script)
    assert ask("-q") == printed


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo starting; echo no driver >&2; exit 3", "ended with exit code 3 (no driver)"),
        ("kill -9 $$", "was killed by SIGKILL (no output)"),
    ],
)
def test_one_that_fails_is_told_with_its_last_words(tool: Tool, script: str, told: str) -> None:
    tool(script)

    assert refusal() == f"`acme-smi -q` {told}. Fix: check the driver and your permissions"


@pytest.mark.parametrize("leaves", [True, False], ids=["a process that it leaves", "a hanging one"])
def test_nothing_that_it_starts_holds_anybody_up(tool: Tool, leaves: bool) -> None:
    """It is ended with what it has started."""
    tool(f"sleep 100 & echo done{'' if leaves else '; wait'}")

    started = time.monotonic()
    if leaves:
        assert ask() == "done\n"
    else:
        assert refusal(limit_s=0.5) == "`acme-smi -q` took longer than 0.5 s. Fix: check the driver"
    assert time.monotonic() - started < 50


def test_one_that_is_not_a_program_of_this_machine_is_told(tool: Tool, tmp_path: Path) -> None:
    tool("")
    (tmp_path / "acme-smi").write_bytes(b"\x7fELF nonsense")

    assert refusal().startswith("`acme-smi -q` could not be started: [Errno 8] Exec format error")
