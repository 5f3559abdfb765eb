"""Run the suites of a tier side by side: ``python -m tests TIER``; it is fast, standard or full (tests/tiers.py).

torch serves one accelerator a process, so that neither the simulated Gaudi nor the simulated Teco cards can be tested
in the process that tests ``cpu_sim``; the others are apart to run beside these. One more runs at once than there are
cores, for a suite waits a seventh of its time, for ranks that time out: yet more would only take turns. The first suite
is shown while it runs, the others when they have ended. Each ends with the tests that took the longest; the last
that is said are the tests that failed, the sample that was drawn, what the proofs of chips leave to cpu_sim's or leave
out, and how long each suite took. CI has 90 minutes: on a slow machine, a chip whose turn comes after 50 is not proved.
The CPU's runs, with which every chip is compared, they share. What follows the tier is handed to each pytest.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

import pytest
from tests.forks.processes import place
from tests.tiers import LEFT, SAMPLED_BY, TIERS

from northbridge_conformance.run import FOLDER

PYTEST = (sys.executable, "-m", "pytest", "--durations=25", "--durations-min=5")
_FINE = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


@dataclass(frozen=True)
class Suite:
    """The tests of one pytest."""

    name: str
    arguments: tuple[str, ...]
    simulates: str | None = None
    tiers: tuple[str, ...] = tuple(TIERS)
    """Those in which it has tests to run."""

    may_be_left: bool = False
    """True if the proof of its chip is left out when its turn comes late; no other test of it needs the proof."""


@dataclass(frozen=True)
class Ended:
    """The end of a suite."""

    code: int
    seconds: float
    cases: list[ElementTree.Element] = field(default_factory=list)
    """pytest's results of its tests; there are none where pytest itself was ended."""

    is_proved: bool = True
    """False if the proof of its chip was left out."""


_SHARED = "tests/backends/simulated/test_"
_ON_INTEL = (f"{_SHARED}conformance.py", f"{_SHARED}chip.py")
_ON_ASCEND = (f"{_SHARED}contract.py", f"{_SHARED}chip.py")
_OF_ITS_OWN = ("-c", "pyproject.toml", "-p", "tests.tiers")
_PROOF = "tests/backends/simulated/test_conformance.py::TestProof"
_LAST_PROOF_S = 50 * 60.0

SUITES = (
    Suite("hpu", ("tests/backends/hpu", "tests/backends/simulated"), "hpu", ("standard", "full")),
    Suite(
        "the rest",
        (
            "--ignore=tests/core",
            "--ignore=tests/backends/cpu_sim",
            "--ignore=tests/conformance",
            "--ignore=tests/faults",
        ),
    ),
    Suite("the core", ("tests/core", "tests/conformance", "--ignore=tests/core/lightning")),
    Suite("sdaa", ("tests/backends/sdaa", "tests/backends/simulated"), "sdaa", ("standard", "full")),
    Suite("cpu_sim", ("tests/backends/cpu_sim",)),
    Suite("wrong backends", ("tests/faults",), tiers=("standard", "full")),
    Suite("Lightning", ("tests/core/lightning",)),
    Suite("simulated xpu", _ON_INTEL, "xpu", ("full",), may_be_left=True),
    Suite("simulated npu", (_PROOF, *_ON_ASCEND), "npu", ("full",), may_be_left=True),
    # A distribution of its own, with a pytest as a third party has it; only the tiers are this repository's.
    Suite("xpu", (*_OF_ITS_OWN, "backends/xpu/tests")),
    # Its levels are proved above, by forks.
    Suite("npu", (*_OF_ITS_OWN, "backends/npu/tests", "-k", "not conformance"), "npu", ("full",)),
)
"""In the order in which three at once end together; the first is the one that is shown."""


def main(tier: str, arguments: Sequence[str]) -> int:
    """Run the suites of ``tier``, and return pytest's exit code: the first that is not 0."""
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())  # Ctrl-C ends the suites, which say so
    suites = [suite for suite in SUITES if tier in suite.tiers]
    arguments = [*(("-m", TIERS[tier]) if TIERS[tier] else ()), *arguments]
    place()  # all suites share the processes that fork
    began = time.monotonic()
    with ExitStack() as stack:
        runs = stack.enter_context(tempfile.TemporaryDirectory(prefix="northbridge-runs-"))
        results = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="northbridge-results-")))
        at_once = stack.enter_context(ThreadPoolExecutor(1 + (os.cpu_count() or 2)))
        outputs = [None, *(stack.enter_context(tempfile.TemporaryFile()) for _ in suites[1:])]
        ends = [
            at_once.submit(_run, suite, arguments, output, runs, results, interrupted, began + _LAST_PROOF_S)
            for suite, output in zip(suites, outputs, strict=True)
        ]
        ended = {}
        for suite, output, end in zip(suites, outputs, ends, strict=True):
            ended[suite.name] = end.result()
            if output is not None:
                print(f"\nmake test: {suite.name}, in a pytest of its own meanwhile", flush=True)
                output.seek(0)
                shutil.copyfileobj(output, sys.stdout.buffer)
                sys.stdout.flush()
    for line in _summarise(ended):
        print(f"make test: {line}")
    print(f"make test: {tier}: {_say(time.monotonic() - began)}")
    return next((each.code for each in ended.values() if each.code not in _FINE), 0)


def _run(
    suite: Suite,
    arguments: Sequence[str],
    output: IO[bytes] | None,
    runs: str,
    results: Path,
    interrupted: threading.Event,
    last_proof: float,
) -> Ended:
    if interrupted.is_set():
        return Ended(pytest.ExitCode.INTERRUPTED, 0)
    environ = {**os.environ, FOLDER: runs}
    # Where it is set, each of some thousand processes compiles our own modules once more.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if suite.simulates:
        environ["NORTHBRIDGE_SIMULATE"] = suite.simulates
    began, xml = time.monotonic(), results / f"{suite.name}.xml"
    is_proved = not suite.may_be_left or began <= last_proof
    left_out = () if is_proved else (f"--deselect={_PROOF}",)
    code = subprocess.run(
        [*PYTEST, f"--junit-xml={xml}", *suite.arguments, *left_out, *arguments],
        env=environ,
        stdout=output,
        stderr=output,
        check=False,
    ).returncode
    cases = list(ElementTree.parse(xml).iter("testcase")) if xml.exists() else []
    return Ended(code, time.monotonic() - began, cases, is_proved)


def _summarise(ended: dict[str, Ended]) -> list[str]:
    """Return a line for each test that failed: which, and how its error begins; then the rest."""
    tests = [(name, test) for name, each in ended.items() for test in each.cases]
    failures = [
        f"{name}: {test.get('classname')}::{test.get('name')}: {(ending.get('message') or '').strip()[:500]}"
        for name, test in tests
        for ending in test
        if ending.tag in ("failure", "error")
    ]
    codes = [f"{name}: pytest ended with {each.code}" for name, each in ended.items() if each.code not in _FINE]
    drawn = [
        f"{test.get('name')}, drawn by {drawn.get('value')}"
        for _, test in tests
        for drawn in test.iter("property")
        if drawn.get("name") == SAMPLED_BY
    ]
    left = [
        f"{name}: {found.get('value')} are {LEFT}"
        for name, test in tests
        for found in test.iter("property")
        if found.get("name") == LEFT
    ]
    left += [
        f"{name}: not proved, for {_say(_LAST_PROOF_S)} had passed"
        for name, each in ended.items()
        if not each.is_proved
    ]
    times = [f"{name}: {len(each.cases)} tests, {_say(each.seconds)}" for name, each in ended.items()]
    return [*failures, *codes, *drawn, *left, *times]


def _say(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in TIERS:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
