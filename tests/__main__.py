"""Run every suite, side by side: the core's, and that of each chip.

torch serves one accelerator a process, so that neither the simulated Gaudi nor the simulated Teco cards can be tested
in the process that tests ``cpu_sim``; and ``cpu_sim``'s suite is as long as the core's. As many run at once as there
are cores, and two at least: more would only take turns, and ranks that wait for each other would wait longer. The first
suite is shown while it runs, the others when they have ended. Each ends with the tests that took the longest. The CPU's
runs, with which every chip is compared, they share.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

import pytest

from northbridge.conformance.runs.shared_runs import FOLDER

PYTEST = (sys.executable, "-m", "pytest", "--durations=25", "--durations-min=5")


@dataclass(frozen=True)
class Suite:
    """What one pytest runs."""

    name: str
    arguments: tuple[str, ...]
    simulates: str | None = None


SUITES = (
    Suite("the core", ("--ignore=tests/backends/cpu_sim", "--ignore=tests/conformance")),
    Suite("hpu", ("tests/backends/hpu",), simulates="hpu"),
    Suite("cpu_sim", ("tests/backends/cpu_sim",)),
    Suite("sdaa", ("tests/backends/sdaa",), simulates="sdaa"),
)
"""The longest first, which is the one that is shown."""


def main() -> int:
    """Run them all, and return pytest's exit code: the first that is not 0."""
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())  # Ctrl-C ends the suites, which say so
    with ExitStack() as stack:
        runs = stack.enter_context(tempfile.TemporaryDirectory(prefix="northbridge-runs-"))
        at_once = stack.enter_context(ThreadPoolExecutor(max(2, os.cpu_count() or 2)))
        first, *others = SUITES
        shown = at_once.submit(_run, first, None, runs, interrupted)
        kept = [(suite, stack.enter_context(tempfile.TemporaryFile())) for suite in others]
        codes = [at_once.submit(_run, suite, output, runs, interrupted) for suite, output in kept]
        shown.result()
        for (suite, output), code in zip(kept, codes, strict=True):
            code.result()
            print(f"\nmake test: {suite.name}, in a pytest of its own meanwhile", flush=True)
            output.seek(0)
            shutil.copyfileobj(output, sys.stdout.buffer)
            sys.stdout.flush()
        return next((code.result() for code in (shown, *codes) if code.result()), 0)


def _run(suite: Suite, output: IO[bytes] | None, runs: str, interrupted: threading.Event) -> int:
    if interrupted.is_set():
        return pytest.ExitCode.INTERRUPTED
    environ = {**os.environ, FOLDER: runs}
    if suite.simulates:
        environ["NORTHBRIDGE_SIMULATE"] = suite.simulates
    return subprocess.run(
        [*PYTEST, *suite.arguments], env=environ, stdout=output, stderr=output, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
