"""Processes that hold a card."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scripts import start_python

import northbridge
from northbridge import device_users

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files a process has open")


def pattern(folder: Path) -> re.Pattern[str]:
    return re.compile(re.escape(str(folder)) + r"/card(\d+)$")


def test_user_of_a_card_is_found_with_its_command(tmp_path: Path) -> None:
    card = tmp_path / "card3"
    card.touch()
    hold = f"file = open({str(card)!r}); print('holds', flush=True); input()"
    with start_python("-c", hold, stdin=subprocess.PIPE, stderr=None) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"

        found = device_users(pattern(tmp_path))

        holder.kill()
    assert set(found) == {holder.pid}
    number, command = found[holder.pid]
    assert number == 3
    assert command.startswith(Path(sys.executable).name + " -c file = open(")
    assert command.endswith(" …")
    assert len(command) <= 80


def test_a_command_from_deep_folders_still_tells_its_script(tmp_path: Path) -> None:
    card, script = tmp_path / "card0", tmp_path / ("deep" * 20) / "train.py"
    script.parent.mkdir()
    script.write_text(f"file = open({str(card)!r}, 'w'); print('holds', flush=True); input()")
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"

        found = device_users(pattern(tmp_path))

        holder.kill()
    assert found == {holder.pid: (0, f"{Path(sys.executable).name} train.py")}


def test_this_process_is_one_too(tmp_path: Path) -> None:
    with open(tmp_path / "card0", "w"):
        assert set(device_users(pattern(tmp_path))) == {os.getpid()}


def test_where_nobody_holds_any_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "card0").touch()

    assert device_users(pattern(tmp_path)) == {}


def test_only_the_cards_of_ones_own_server_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
    simulation = northbridge.Simulation({}, dev=lambda: own)
    monkeypatch.setattr("northbridge.discovery.simulated._simulations", {"anvil": simulation})

    with open(own / "anvil1", "w"), open(other / "anvil2", "w"):
        found = device_users(re.compile(r"^/dev/anvil(\d+)$"))

    assert {pid: number for pid, (number, _) in found.items()} == {os.getpid(): 1}
