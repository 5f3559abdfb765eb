"""Run every suite, side by side: the core's, that of each chip, the backends that are wrong on purpose, and the rest.

torch serves one accelerator a process, so that neither the simulated Gaudi nor the simulated Teco cards can be tested
in the process that tests ``cpu_sim``; the others are apart to run beside these. One more runs at once than there are
cores, for a suite waits a seventh of its time, for ranks that time out: yet more would only take turns. The first suite
is shown while it runs, the others when they have ended. Each ends with the tests that took the longest; the last
that is said are the tests that failed, of all suites. The CPU's runs, with which every chip is compared, they share.
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
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

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
    Suite("the core", ("tests/core",)),
    Suite("hpu", ("tests/backends/hpu", "tests/backends/simulated"), simulates="hpu"),
    Suite("cpu_sim", ("tests/backends/cpu_sim",)),
    Suite("sdaa", ("tests/backends/sdaa", "tests/backends/simulated"), simulates="sdaa"),
    Suite("the rest", ("--ignore=tests/core", "--ignore=tests/backends/cpu_sim", "--ignore=tests/conformance")),
    Suite("wrong backends", ("tests/conformance",)),
)
"""The longest first; the first is the one that is shown."""


def main() -> int:
    """Run them all, and return pytest's exit code: the first that is not 0."""
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())  # Ctrl-C ends the suites, which say so
    with ExitStack() as stack:
        runs = stack.enter_context(tempfile.TemporaryDirectory(prefix="northbridge-runs-"))
        results = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="northbridge-results-")))
        at_once = stack.enter_context(ThreadPoolExecutor(1 + (os.cpu_count() or 2)))
        outputs = [None, *(stack.enter_context(tempfile.TemporaryFile()) for _ in SUITES[1:])]
        ends = [
            at_once.submit(_run, suite, output, runs, results, interrupted)
            for suite, output in zip(SUITES, outputs, strict=True)
        ]
        codes = {}
        for suite, output, end in zip(SUITES, outputs, ends, strict=True):
            codes[suite.name] = end.result()
            if output is not None:
                print(f"\nmake test: {suite.name}, in a pytest of its own meanwhile", flush=True)
                output.seek(0)
                shutil.copyfileobj(output, sys.stdout.buffer)
                sys.stdout.flush()
        for name, code in codes.items():
            for failure in _list_failures(results / f"{name}.xml"):
                print(f"make test: {name}: {failure}", flush=True)
            if code:
                print(f"make test: {name}: pytest ended with {code}", flush=True)
        return next(filter(None, codes.values()), 0)


def _run(suite: Suite, output: IO[bytes] | None, runs: str, results: Path, interrupted: threading.Event) -> int:
    if interrupted.is_set():
        return pytest.ExitCode.INTERRUPTED
    environ = {**os.environ, FOLDER: runs}
    # Where it is set, each of some thousand processes compiles our own modules once more.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if suite.simulates:
        environ["NORTHBRIDGE_SIMULATE"] = suite.simulates
    return subprocess.run(
        [*PYTEST, f"--junit-xml={results / suite.name}.xml", *suite.arguments],
        env=environ,
        stdout=output,
        stderr=output,
        check=False,
    ).returncode


def _list_failures(results: Path) -> list[str]:
    """Return a line for each test of which pytest's ``results`` say that it failed: which, and how its error begins."""
    if not results.exists():  # pytest itself was ended
        return []
    return [
        f"{test.get('classname')}::{test.get('name')}: {(ending.get('message') or '').strip()[:500]}"
        for test in ElementTree.parse(results).iter("testcase")
        for ending in test
        if ending.tag in ("failure", "error")
    ]


if __name__ == "__main__":
    sys.exit(main())
