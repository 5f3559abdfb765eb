"""The command `northbridge`, as tests run it and read it."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.core.conftest import Site

Completed = subprocess.CompletedProcess[str]

NO_CHIP = {"NORTHBRIDGE_DISABLE": "cpu_sim"}  # compiling the chip would take a minute


def command(*arguments: str) -> str:
    return f"import sys; sys.argv = ['northbridge', *{list(arguments)}]; from northbridge.cli.app import main; main()"


def northbridge(site: Site, *arguments: str, **environ: str) -> Completed:
    return site.python(command(*arguments), **{**NO_CHIP, **environ})


def assert_children_end(arguments: list[str], environ: dict[str, str], alive: Path, number: int, code: int) -> None:
    """Assert that the signal ``number`` ends the command, and its child, which opens the FIFO ``alive``, with it."""
    hears_ctrl_c = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # in the background too
    program = [sys.executable, "-c", hears_ctrl_c + command(*arguments)]
    with subprocess.Popen(program, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        with alive.open("rb", buffering=0) as end:  # waits for the child to open it
            run.send_signal(number)
            assert run.wait(timeout=30) == code
            ended, _, _ = select.select([end], [], [], 30)
            assert ended  # every process that could have written is gone
            assert end.read() == b""
        assert run.stderr is not None
        said = run.stderr.read().decode()
        assert "Traceback" not in said, said


def beside(site: Site, *folders: Path) -> Site:
    return replace(site, folders=(*site.folders, *folders))


def row(output: str, name: str) -> list[str]:
    """Return the cells of one row of a table; its reason, which begins with the same name, stands below."""
    line = next(line for line in output.splitlines() if line.split("  ")[0] == name)
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def flowing(output: str) -> str:
    """Return the text as it was before it was wrapped."""
    return " ".join(output.split())


def backend(name: str, run: Completed) -> dict[str, Any]:
    """Return what ``--json`` says about one backend."""
    (found,) = (each for each in json.loads(run.stdout)["backends"] if each["name"] == name)
    return dict(found)
