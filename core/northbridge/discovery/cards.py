"""A vendor's cards: how many are behind the devices, which processes use them, and the command that lists them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import shorten

from northbridge.backend import Backend
from northbridge.discovery.simulated import device_folder, stand_in_for_tool
from northbridge.errors import DetectionError, NorthbridgeError
from northbridge.process_record import note
from northbridge.processes.child import run
from northbridge.processes.endings import describe_exit, last_words


def counted_cards(backend: Backend, devices: Collection[int], *, total: int) -> int | None:
    """Ask the bridge for the number of cards, for display; None if it cannot tell, and the record says why."""
    try:
        return backend.bridge.count_cards(devices, total=total)
    except NorthbridgeError as error:
        note(backend.name, "cards not counted", str(error), problem=True)
        return None


def on_cards(cards: int | None) -> str:
    """Return " (1 card)", to follow a number of devices; empty if the number of cards is unknown."""
    return "" if cards is None else f" ({cards} card{'s' if cards != 1 else ''})"


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


def run_tool(name: str, *arguments: str, backend: str, limit_s: float = 10.0) -> str | None:
    """Run the vendor's command ``name`` and return its output; None if it is not installed.

    For a bridge that queries cards. If the chip is simulated, the command's stand-in runs. Raises
    :class:`DetectionError` if the command cannot be started, fails, or runs longer than ``limit_s`` seconds.
    """
    command = stand_in_for_tool(name) or _installed(name)
    if command is None:
        return None
    what = " ".join((name, *arguments))
    try:
        code, said = run([*command, *arguments], limit_s=limit_s, environ={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise DetectionError(f"`{what}` could not be started: {error}", backend=backend) from error
    if code is None:
        raise DetectionError(f"`{what}` took longer than {limit_s:g} s. Fix: check the driver", backend=backend)
    if code:
        raise DetectionError(
            f"`{what}` {describe_exit(code)} ({last_words(said) or 'no output'}). Fix: check the driver"
            " and your permissions",
            backend=backend,
        )
    return said.decode(errors="replace")


def _installed(name: str) -> list[str] | None:
    # An empty or relative entry of PATH means the working directory, which may contain a file of any name.
    folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    found = shutil.which(name, path=os.pathsep.join(folders))
    return None if found is None else [found]
