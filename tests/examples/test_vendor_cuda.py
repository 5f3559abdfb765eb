"""A third party's plugin for CUDA, as far as a machine without a GPU shows it: from its wheel to level C0."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.core.conftest import Install, Site, install as install
from tests.scripts import run_command

from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

VENDOR = Path(__file__).parents[2] / "examples" / "vendor_cuda"
NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
BUILT: bool = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]  # torch's
WITHOUT_CUDA = pytest.mark.skipif(BUILT, reason="this torch was built with CUDA")


@pytest.fixture
def site(install: Install) -> Site:
    """The plugin, built to a wheel and installed beside ours."""
    return install(VENDOR)


def run(*command: str, site: Site, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in ``folder``, where the plugin is installed."""
    return run_command(*command, folder=folder, environ=site.environ(**environ))


def test_it_is_forty_lines_at_most() -> None:
    assert len((VENDOR / "nb_cuda.py").read_text().splitlines()) <= 40


@pytest.fixture(scope="module")
def report(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The output of the suite for level C1."""
    folder = tmp_path_factory.mktemp("conformance")
    run(NORTHBRIDGE, "conformance", "nb_cuda", "--level", "C1", "--out", "report", site=install(VENDOR), folder=folder)
    return Report.read(folder / "report" / "report.json")


def test_it_earns_level_c0(report: Report) -> None:
    plugin, *_ = report.levels

    assert (plugin.name, plugin.granted, plugin.simulated, plugin.withheld) == ("C0", True, False, ())
    assert {test.verdict for test in report.tests if test.level == "C0"} == {Verdict.PASS}


@WITHOUT_CUDA
def test_above_that_level_it_is_told_what_this_machine_lacks(report: Report) -> None:
    beyond = [test for test in report.tests if test.level == "C1"]

    assert len(beyond) > 100
    assert {(test.verdict, test.evidence) for test in beyond} == {
        (Verdict.NOT_RUN, f"backend 'nb_cuda': torch {torch.__version__} was built without CUDA; install one with CUDA")
    }
    assert not report.levels[1].granted


def test_its_own_tests_pass(site: Site) -> None:
    pytest_of_theirs = (sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "tests/test_nb_cuda.py")

    tested = run(*pytest_of_theirs, site=site, folder=VENDOR)

    assert tested.returncode == 0, tested.stdout


def test_its_ci_runs_files_that_are_there() -> None:
    ci = (VENDOR / ".github" / "workflows" / "ci.yml").read_text()

    named = re.findall(r"[\w/]+\.py\b", ci)

    assert len(named) >= 4
    assert [each for each in named if not (VENDOR / each).is_file()] == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_nothing_is_measured_and_nothing_claimed(site: Site, tmp_path: Path) -> None:
    measured = run(sys.executable, str(VENDOR / "step_time.py"), "--out", "step_time.json", site=site, folder=tmp_path)

    assert measured.returncode == 3, measured.stderr
    assert measured.stdout == (
        f"no GPU: torch {torch.__version__} finds none here. Nothing was measured, and nothing is claimed\n"
    )
    assert not (tmp_path / "step_time.json").exists()


def test_a_measurement_takes_turns_and_divides(site: Site, tmp_path: Path) -> None:
    quick = ("--pair", "cpu_sim", "cpu", "--size", "small", "--steps", "1", "--warm-up", "1", "--rounds", "2")

    measured = run(sys.executable, str(VENDOR / "step_time.py"), *quick, "--out", "b.json", site=site, folder=tmp_path)

    assert re.findall(r"^round (\d) +(\w+) ", measured.stdout, flags=re.M) == [
        ("1", "cpu_sim"),
        ("1", "cpu"),
        ("2", "cpu"),
        ("2", "cpu_sim"),
    ], measured.stderr
    found = json.loads((tmp_path / "b.json").read_text())
    quotients = [a / b for a, b in zip(*found["seconds_a_step"].values(), strict=True)]
    assert found["ratio"] == pytest.approx(sum(quotients) / 2)
    assert measured.returncode == (0 if found["ratio"] <= found["bound"] else 1)
    assert (found["pair"], found["torch"]) == (["cpu_sim", "cpu"], torch.__version__)
