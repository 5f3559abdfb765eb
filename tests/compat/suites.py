"""What runs with another torch or another Python, and its outcome."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.__main__ import SUITES
from tests.compat.environments import FOLDER, ROOT
from tests.tiers import TIERS

CHIP = "tests/backends/cpu_sim"
COLLECTIVE = ("collective", "ranks")
"""Words that the paths of the collectives' tests contain."""

JOB = ("tests/backends/simulated/test_conformance.py",)
"""The main job of a vendor's simulated chip: its proof up to C4, with trainings on one device and on several."""

WITH_OWN_KEY = ("hpu", "xpu")
"""The simulated chips with a dispatch key of their own. torch refuses them in a CUDA build, such as PyPI's."""

VENDORS = ("hpu", "sdaa", "npu", "xpu")
"""The simulated chips of vendors."""

REPORT = FOLDER / "conformance"


@dataclass(frozen=True)
class Suite:
    """Some tests under one heading, or a command that counts as one."""

    title: str
    line: tuple[str, ...]
    """A program of the environment, and its arguments."""

    simulates: str | None = None

    @staticmethod
    def of_pytest(title: str, arguments: Iterable[str], simulates: str | None = None) -> Suite:
        return Suite(title, ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments), simulates)

    @property
    def is_pytest(self) -> bool:
        return "pytest" in self.line


@dataclass(frozen=True)
class Outcome:
    """The outcome of one suite; ``failed`` are the failed tests by name, each with its error's first line."""

    title: str
    passed: int
    skipped: int
    failed: tuple[tuple[str, str], ...]


def with_torch() -> tuple[Suite, ...]:
    """Return the device, the collective and the main-job tests, as the files are today."""
    files = sorted(str(file.relative_to(ROOT)) for file in (ROOT / CHIP).rglob("test_*.py"))
    jobs = [f"{CHIP}/test_conformance.py"]
    collective = [file for file in files if file not in jobs and any(word in file for word in COLLECTIVE)]
    device = [file for file in files if file not in (*jobs, *collective)]
    trainings = ["tests/matrix/test_matrix.py", "tests/core/lightning/strategies/test_ddp.py"]
    return (
        Suite.of_pytest("device", device),
        Suite.of_pytest("collective", collective),
        Suite.of_pytest("main job", (*jobs, *trainings)),
        *(Suite.of_pytest(f"main job on {chip}", JOB, chip) for chip in WITH_OWN_KEY),
    )


def with_python() -> tuple[Suite, ...]:
    """Return what a Python has to show: the demo, the fast tests, C0 to C2, and a training on each simulated chip."""
    fast = (each for each in SUITES if "fast" in each.tiers)
    return (
        Suite("demo", ("python", "examples/digits.py")),
        *(
            Suite.of_pytest(f"fast tests: {each.name}", ("-m", TIERS["fast"], *each.arguments), each.simulates)
            for each in fast
        ),
        Suite("C0 to C2 on cpu_sim", ("northbridge", "conformance", "cpu_sim", "--level=C2", f"--out={REPORT}")),
        *(
            Suite(f"doctor --train on {chip}", ("northbridge", "doctor", chip, "--train"), simulates)
            for chip, simulates in (("cpu_sim", None), *zip(VENDORS, VENDORS, strict=True))
        ),
    )


def run(suite: Suite, python: Path) -> Outcome:
    """Run one suite in the environment of ``python``; show what it says, and return what came of it."""
    program, *arguments = suite.line
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        environ = dict(os.environ)
        if suite.simulates:
            environ |= {"NORTHBRIDGE_SIMULATE": suite.simulates}
        if suite.is_pytest:
            arguments.append(f"--junitxml={report}")
        else:
            environ |= {"NORTHBRIDGE_DETECT_TIMEOUT": "600"}  # who asks first for the cards compiles the chip
        said: list[str] = []
        with subprocess.Popen(
            [str(python.with_name(program)), *arguments],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            for line in process.stdout or ():
                print(line, end="", flush=True)
                said = [*said[-19:], line.strip()]
        if report.exists():
            return read(suite.title, report.read_text())
    if process.returncode == 0 and not suite.is_pytest:
        counted = sum(map(int, re.findall(r"granted, (\d+) tests ran", "\n".join(said))))  # by the conformance suite
        return Outcome(suite.title, counted or 1, 0, ())
    last = next((line for line in reversed(said) if line), "nothing")
    return Outcome(suite.title, 0, 0, ((suite.title, f"ended with {process.returncode}: {last}"),))


def read(title: str, report: str) -> Outcome:
    """Return the outcome that pytest's XML ``report`` tells."""
    cases = list(ElementTree.fromstring(report).iter("testcase"))
    failed = [(_name(case), said) for case in cases if (said := _said(case, ("failure", "error"))) is not None]
    skipped = sum(_said(case, ("skipped",)) is not None for case in cases)
    names = {name for name, _ in failed}  # a test that fails, and then its fixture, is there twice
    return Outcome(title, len({_name(case) for case in cases} - names) - skipped, skipped, tuple(failed))


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '')}::{case.get('name', '')}"


def _said(case: ElementTree.Element, tags: Iterable[str]) -> str | None:
    for tag in tags:
        if (element := case.find(tag)) is not None:
            lines = (element.get("message") or element.text or "").strip().splitlines()
            return lines[0] if lines else ""
    return None
