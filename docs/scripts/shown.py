"""Write the outputs that pages show, and the report in docs/shown, on simulated chips: ``make shown``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).parents[1]
sys.path.insert(0, str(DOCS.parent))

from tests.docs.page import write_parts  # noqa: E402 - the folder above is not on the path of a script

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
WIDTH = 80
WAITING = "wait_for"  # where rank 2 stands, which the recorder sees some seconds after its last call


def main() -> None:
    """Run the three commands, one after the other."""
    with TemporaryDirectory() as folder:
        modules = {"NORTHBRIDGE_SIMULATE": "hpu", "HABANA_VISIBLE_MODULES": "0,3,9"}
        report = ask(folder, "doctor", "hpu", **modules)
        write("doctor.md", "\n\n".join(report.rstrip().split("\n\n")[-2:]))
        write("hang.md", hang(folder))
        ask(folder, "conformance", "hpu", "--level", "C0", "--out", "report", NORTHBRIDGE_SIMULATE="hpu")
        shutil.copy(Path(folder, "report", "report.json"), DOCS / "shown")


def ask(folder: str, *arguments: str, **environ: str) -> str:
    """Return the output of the command."""
    narrow = {**os.environ, "COLUMNS": str(WIDTH), **environ}
    done = subprocess.run(
        [NORTHBRIDGE, *arguments], cwd=folder, env=narrow, capture_output=True, text=True, check=False
    )
    return done.stdout


def hang(folder: str) -> str:
    """Return the output of ``northbridge hang`` for a run while it hangs, and end the run."""
    script = Path(shutil.copy(Path(__file__).with_name("stuck.py"), folder))
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


def write(page: str, output: str) -> None:
    """Write ``output`` into the place of the page."""
    lines = "\n".join(line.rstrip() for line in output.strip().splitlines())
    write_parts(DOCS / page, f"```text\n{lines}\n```")


if __name__ == "__main__":
    main()
