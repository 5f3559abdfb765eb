"""Write the outputs in docs/shown with the commands that the pages name, on simulated chips: ``make shown``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

SHOWN = Path(__file__).parents[1] / "shown"
NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
WIDTH = 80
WAITING = "wait_for"  # where rank 2 stands, which the recorder sees some seconds after its last call


def main() -> None:
    """Run the three commands, one after the other."""
    with TemporaryDirectory() as folder:
        modules = {"NORTHBRIDGE_SIMULATE": "hpu", "HABANA_VISIBLE_MODULES": "0,3,9"}
        report = ask(folder, "doctor", "hpu", **modules)
        write("doctor", report)
        write("doctor_end", "\n\n".join(report.rstrip().split("\n\n")[-2:]))
        write("hang", hang(folder))
        ask(folder, "conformance", "hpu", "--level", "C0", "--out", "report", NORTHBRIDGE_SIMULATE="hpu")
        shutil.copy(Path(folder, "report", "report.json"), SHOWN)


def ask(folder: str, *arguments: str, **environ: str) -> str:
    """Return the output of the command, with its colours."""
    coloured = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), **environ}
    done = subprocess.run(
        [NORTHBRIDGE, *arguments], cwd=folder, env=coloured, capture_output=True, text=True, check=False
    )
    return done.stdout


def hang(folder: str) -> str:
    """Return the output of ``northbridge hang`` for a run while it hangs, and end the run."""
    script = Path(shutil.copy(Path(__file__).with_name("stuck.py"), Path(folder, "train.py")))
    run = subprocess.Popen(
        [sys.executable, script.name],
        cwd=folder,
        env={**os.environ, "NORTHBRIDGE_FLIGHT_RECORDER": "flight"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        said = ""
        while WAITING not in said and run.poll() is None:
            time.sleep(5)
            said = ask(folder, "hang", "flight")
        return said
    finally:
        os.killpg(run.pid, signal.SIGKILL)


def write(name: str, output: str) -> None:
    """Write ``output`` as HTML that a page includes."""
    console = Console(record=True, file=StringIO(), width=WIDTH, color_system="standard", force_terminal=True)
    for line in output.splitlines():
        text = Text.from_ansi(line)
        text.rstrip()
        console.print(text, soft_wrap=True)
    code = console.export_html(theme=MONOKAI, code_format="{code}", inline_styles=True)
    (SHOWN / f"_{name}.html").write_text(f'<pre class="terminal" tabindex="0">{code.rstrip()}</pre>\n')


if __name__ == "__main__":
    main()
