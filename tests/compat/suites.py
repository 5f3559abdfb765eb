"""The tests that run with another torch, and their outcomes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.compat.environments import ROOT

CHIP = "tests/backends/cpu_sim"
COLLECTIVE = ("collective", "ranks")
"""Words that the paths of the collectives' tests contain."""

JOB = ("tests/backends/simulated/test_conformance.py",)
"""The main job of a vendor's simulated chip: its proof up to C4, with trainings on one device and on several."""

WITH_OWN_KEY = ("hpu", "xpu")
"""The simulated chips with a dispatch key of their own. torch refuses them in a CUDA build, such as PyPI's."""


@dataclass(frozen=True)
class Suite:
    """Some files of tests under one heading."""

    title: str
    files: tuple[str, ...]
    simulates: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of one suite; ``failed`` are the failed tests by name, each with its error's first line."""

    title: str
    passed: int
    skipped: int
    failed: tuple[tuple[str, str], ...]


def suites() -> tuple[Suite, ...]:
    """Return the device, the collective and the main-job tests, as the files are today."""
    files = sorted(str(file.relative_to(ROOT)) for file in (ROOT / CHIP).rglob("test_*.py"))
    jobs = [f"{CHIP}/test_conformance.py"]
    collective = [file for file in files if file not in jobs and any(word in file for word in COLLECTIVE)]
    device = [file for file in files if file not in (*jobs, *collective)]
    trainings = ["tests/matrix/test_matrix.py", "tests/core/lightning/strategies/test_ddp.py"]
    return (
        Suite("device", tuple(device)),
        Suite("collective", tuple(collective)),
        Suite("main job", (*jobs, *trainings)),
        *(Suite(f"main job on {chip}", JOB, chip) for chip in WITH_OWN_KEY),
    )


def run(suite: Suite, python: Path) -> Outcome:
    """Run one suite with ``python``, whose output is shown, and return what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        pytest = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        environ = {**os.environ, **({"NORTHBRIDGE_SIMULATE": suite.simulates} if suite.simulates else {})}
        ended = subprocess.run([*pytest, *suite.files], cwd=ROOT, env=environ, check=False)
        if not report.exists():
            return Outcome(suite.title, 0, 0, (("pytest itself", f"ended with {ended.returncode}"),))
        return read(suite.title, report.read_text())


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
