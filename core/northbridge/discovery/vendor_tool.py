"""A vendor's command, such as one that lists its cards, run with a time limit."""

from __future__ import annotations

import os
import shutil

from northbridge.discovery.simulated import stand_in_for_tool
from northbridge.errors import DetectionError
from northbridge.processes.child import run
from northbridge.processes.endings import describe_exit, last_words


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
