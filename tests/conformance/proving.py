"""Prove a simulated chip by ``northbridge conformance``, and look at what the command leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.backends.one_namespace import leaving_to_cpu_sim
from tests.engines import with_engines
from tests.forks.suite import forking
from tests.report_page import find_broken_links

import northbridge.discovery.simulated
from northbridge_conformance.report.overview import FAILURES, of_verdict
from northbridge_conformance.report.report import Report

LEVEL = "C3"
EARNED = f"{LEVEL} (simulated)"
"""The level that a chip must earn."""

_NORTHBRIDGE = Path(sys.executable).with_name("northbridge")
_MOST = 3


def prove(
    chip: str, out: Path, environ: Mapping[str, str] = os.environ, *, left_to_cpu_sim: Path | None = None
) -> list[str]:
    """Return what keeps ``chip`` from :data:`EARNED`, or its page from being whole; nothing where all is well.

    The report is in the folder ``out`` then, and what the command said in a text file beside it. If a file for
    ``left_to_cpu_sim`` is given, the proof has the tests of one package of Lightning; the file lists the others.
    """
    if northbridge.discovery.simulated.is_simulable(chip):
        environ = {**environ, "NORTHBRIDGE_SIMULATE": chip}
    out.parent.mkdir(exist_ok=True)
    environ = forking(with_engines(environ))
    if left_to_cpu_sim is not None:
        environ = leaving_to_cpu_sim(environ, left_to_cpu_sim)
    said, written = out.with_suffix(".txt"), out / "report.json"
    written.unlink(missing_ok=True)  # the last run's would be taken for this one's
    with said.open("wb") as output:
        code = subprocess.run(
            [str(_NORTHBRIDGE), "conformance", chip, "--level", LEVEL, "--out", str(out)],
            env=environ,
            cwd=out.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if not written.exists():
        end = said.read_text(errors="replace")[-4000:]
        return [f"{chip}: there is no report, and the command ended with {code}: {end}"]
    report = Report.read(written)
    wrong = []
    if code or report.level is None or report.level.label != EARNED:
        has = report.level.label if report.level else "no level"
        wrong.append(f"{chip}: it has {has} and not {EARNED}, and the command ended with {code}")
        wrong += [f"{chip}: {test.id}: {test.evidence}" for test in of_verdict(report, *FAILURES)[:_MOST]]
    links = find_broken_links((out / "index.html").read_text(encoding="utf-8"))
    return [*wrong, *(f"{chip}: its page has a link that leads nowhere: {link}" for link in links)]
