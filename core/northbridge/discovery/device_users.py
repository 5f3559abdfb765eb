"""Processes that hold a card, as the kernel reports them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import shorten

from northbridge.discovery.simulated import device_folder


def device_users(device_file: re.Pattern[str]) -> dict[int, tuple[int, str]]:
    """Return the processes that have a card's device file open: ``{pid: (number of the card, command)}``.

    ``device_file`` matches the file's path, and its first group the number. For a vendor's errors and for the doctor.
    It works on Linux, and does not see other users' processes. For simulated cards it reads the files of this process's
    own server, under the names of real cards.
    """
    simulated = device_folder()
    folder = simulated and f"{simulated.resolve()}/"
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        paths = _open_files(process)
        if folder:
            paths = (path.replace(folder, "/dev/", 1) for path in paths if path.startswith(folder))
        cards = [card for path in paths if (card := device_file.search(path))]
        if cards:
            with suppress(OSError):  # the process has ended
                found[int(process.name)] = int(cards[0][1]), _command(process)
    return found


def _open_files(process: Path) -> Iterator[str]:
    with suppress(OSError):  # the process has ended, or is another user's
        for file in (process / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed since
                yield str(file.readlink())


def _command(process: Path) -> str:
    """Return the process's command in 80 characters, with only the names of paths."""
    words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return shorten(" ".join(Path(word).name if word.startswith("/") else word for word in words), 80, placeholder=" …")
