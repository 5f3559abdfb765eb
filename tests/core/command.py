"""The command `northbridge`, as tests run it and read it."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import Site

from northbridge.cli.app import app, main

Completed = subprocess.CompletedProcess[str]

NO_CHIP = {"NORTHBRIDGE_DISABLE": "cpu_sim"}  # compiling the chip would take a minute


def command(*arguments: str) -> str:
    return f"import sys; sys.argv = ['northbridge', *{list(arguments)}]; from northbridge.cli.app import main; main()"


def northbridge(site: Site, *arguments: str, **environ: str) -> Completed:
    return site.python(command(*arguments), **{**NO_CHIP, **environ})


@dataclass(frozen=True)
class Told:
    """The end of a command."""

    code: object
    out: str
    err: str
    seconds: float
    """Of this process alone: a busy machine takes longer."""


def northbridge_here(*arguments: object) -> Told:
    """Run the command in this process."""
    out, err, began = StringIO(), StringIO(), time.process_time()
    code: object = None
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["northbridge", *map(str, arguments)])
        patch.setenv("COLUMNS", "200")
        patch.setattr(app, "registered_commands", [*app.registered_commands])  # to which main() adds the suite's
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Told(code, out.getvalue(), err.getvalue(), time.process_time() - began)


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
