"""Run every suite, side by side: the core's, and that of each chip.

torch serves one accelerator a process, so that neither the simulated Gaudi nor the simulated Teco cards can be tested
in the process that tests ``cpu_sim``; and ``cpu_sim``'s suite is as long as the core's. All run at once, also on two
cores: tests of several ranks wait half of their time. The first suite is shown while it runs, the others when they have
ended. Each ends with the tests that took the longest. The CPU's runs, with which every chip is compared, they share.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

from northbridge.conformance.shared_runs import FOLDER

PYTEST = (sys.executable, "-m", "pytest", "--durations=25", "--durations-min=5")


@dataclass(frozen=True)
class Suite:
    """What one pytest runs."""

    name: str
    arguments: tuple[str, ...]
    simulates: str | None = None


SUITES = (
    Suite("the core", ("--ignore=tests/backends/cpu_sim", "--ignore=tests/conformance")),
    Suite("cpu_sim", ("tests/backends/cpu_sim",)),
    Suite("hpu", ("tests/backends/hpu",), simulates="hpu"),
    Suite("sdaa", ("tests/backends/sdaa",), simulates="sdaa"),
)
"""The longest first, which is the one that is shown."""


def main() -> int:
    """Run them all, and return pytest's exit code: the first that is not 0."""
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C ends the suites, which say so
    with ExitStack() as stack:
        runs = stack.enter_context(tempfile.TemporaryDirectory(prefix="northbridge-runs-"))
        running: list[tuple[Suite, subprocess.Popen[bytes], IO[bytes] | None]] = []
        for suite in SUITES:
            output: IO[bytes] | None = stack.enter_context(tempfile.TemporaryFile()) if running else None
            running.append((suite, _start(suite, output, {**os.environ, FOLDER: runs}), output))
        for suite, process, output in running:
            process.wait()
            if output is not None:
                print(f"\nmake test: {suite.name}, in a pytest of its own meanwhile", flush=True)
                output.seek(0)
                shutil.copyfileobj(output, sys.stdout.buffer)
                sys.stdout.flush()
        return next((process.returncode for _, process, _ in running if process.returncode), 0)


def _start(suite: Suite, output: IO[bytes] | None, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    if suite.simulates:
        environ["NORTHBRIDGE_SIMULATE"] = suite.simulates
    return subprocess.Popen([*PYTEST, *suite.arguments], env=environ, stdout=output, stderr=output)


if __name__ == "__main__":
    sys.exit(main())
