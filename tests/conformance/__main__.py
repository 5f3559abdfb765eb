"""Prove simulated chips up to C3 and try the wrong backends, side by side, and check the pages.

``make conformance`` runs it on three chips, and ``CHIPS=cpu_sim make conformance`` on one. What Lightning does on the
CPU, with which each chip is compared, the chips share. The last that is said is why a chip has not the level.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.report_page import find_broken_links

import northbridge.personality
from northbridge.conformance.proof.report import Report
from northbridge.conformance.runs.shared_runs import FOLDER

CHIPS = tuple(os.environ.get("CHIPS", "cpu_sim hpu sdaa").split())
LEVEL = "C3"
OUT = Path("conformance")
"""Where the reports go: a folder for each chip."""


def main() -> int:
    """Run the command for each chip; return 0 where all have the level, and the pages are whole."""
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C ends the commands
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="northbridge-runs-", ignore_cleanup_errors=True) as runs:
        running = [(chip, _start(chip, runs)) for chip in CHIPS]
        with (OUT / "wrong.txt").open("wb") as said:
            pytest = [sys.executable, "-m", "pytest", "tests/conformance", "--durations=10"]
            trial = subprocess.Popen(pytest, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        codes = {chip: process.wait() for chip, process in running}
        tried = trial.wait()
    _show(OUT / "wrong.txt", "backends that are wrong on purpose")
    for chip in sorted(CHIPS, key=codes.__getitem__):
        _show(OUT / f"{chip}.txt", f"conformance of {chip}, ended with {codes[chip]}")
    wrong = [chip for chip in CHIPS if codes[chip]]
    for chip in set(CHIPS) - set(wrong):
        report = Report.read(OUT / chip / "report.json")
        print(f"{chip}: {report.level.label if report.level else 'no level'} in {report.seconds:.0f} s")
        for link in find_broken_links((OUT / chip / "index.html").read_text(encoding="utf-8")):
            print(f"{chip}: its page has a link that leads nowhere: {link}")
            wrong.append(chip)
    if tried:
        print(f"backends that are wrong on purpose: pytest ended with {tried}, see above")
    return 1 if wrong else tried


def _show(said: Path, title: str) -> None:
    print(f"\n{title}:", flush=True)
    with said.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()


def _start(chip: str, runs: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, FOLDER: runs}
    if northbridge.personality.is_simulable(chip):
        environ["NORTHBRIDGE_SIMULATE"] = chip
    northbridge_command = Path(sys.executable).with_name("northbridge")
    command = [str(northbridge_command), "conformance", chip, "--level", LEVEL, "--out", str(OUT / chip)]
    with (OUT / f"{chip}.txt").open("wb") as said:
        return subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main())
