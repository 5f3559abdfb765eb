"""The operating system, told without asking another program."""

from __future__ import annotations

import platform
import sys

from northbridge.diagnostics.system import describe_system


def test_it_says_what_python_says_of_the_system() -> None:
    assert describe_system() == platform.platform()


def test_it_starts_no_process() -> None:
    started: list[str] = []
    listening = True
    sys.addaudithook(lambda event, _: started.append(event) if listening and event == "subprocess.Popen" else None)

    describe_system()
    listening = False

    assert started == []
