"""A third party's plugin for a made-up chip, which examples/template makes: from its wheel to a level."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import Install, Site, copy_template
from tests.forks.suite import forking

from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Ending, Verdict

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
SIMULATED = {"NORTHBRIDGE_SIMULATE": "kelvin"}


@pytest.fixture
def site(install: Install) -> Site:
    """The plugin, built to a wheel and installed beside ours."""
    return install("kelvin")


def run(
    *command: str, site: Site, folder: Path, environ: Mapping[str, str], limit: float = 280, forked: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in ``folder``, where the plugin is installed; what the suite starts may be ``forked``."""
    given = site.environ(**environ)
    return subprocess.run(
        command,
        env=forking(given) if forked else given,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ("no software", False, 0, False)),
        ({**SIMULATED, "KELVIN_VISIBLE_DEVICES": "0,2"}, ("ready", True, 2, True)),
    ],
    ids=["without its software", "two cards are visible"],
)
def test_it_is_listed(site: Site, tmp_path: Path, environ: dict[str, str], expected: tuple[Any, ...]) -> None:
    alone = {"NORTHBRIDGE_DISABLE": "cpu_sim,hpu,npu,sdaa,xpu"}  # no other backend is asked

    listed = run(NORTHBRIDGE, "list", "--json", site=site, folder=tmp_path, environ={**alone, **environ})

    (row,) = [each for each in json.loads(listed.stdout)["backends"] if each["name"] == "kelvin"]
    assert (row["status"], row["loadable"], row["devices"], row["simulated"]) == expected
    assert listed.returncode == 0, listed.stderr


SOME = ("C1/Device/", "C1/Dtypes/", "Transfers", "CollectiveReductions", "GradientAveraging")
"""What a denied dtype decides; ``tests/examples/test_template.py`` proves C0 of another such plugin."""


@pytest.mark.timeout(900)  # the suite has its own limits, and says which test outlasted them
def test_denials_fail_neither_its_operations_nor_its_collectives(site: Site, tmp_path: Path) -> None:
    part = ("conformance", "kelvin", *(word for name in SOME for word in ("--only", name)), "--out", "report")

    asked = run(NORTHBRIDGE, *part, site=site, folder=tmp_path, limit=880, environ=SIMULATED, forked=True)

    assert asked.returncode == 0, asked.stdout + asked.stderr
    report = Report.read(tmp_path / "report" / "report.json")
    ran = [test for test in report.tests if test.seconds]
    assert len(ran) > 70
    verdicts = {test.level: {each.verdict for each in ran if each.level == test.level} for test in ran}
    assert verdicts == {"C1": {Verdict.PASS, Verdict.UNKNOWN}, "C3": {Verdict.PASS}}
    assert any("float64" in test.id for test in ran if test.level == "C3")
    (epsilon,) = (test for test in ran if test.id == "C1/Dtypes/test_epsilon_is_that_of_the_dtype[float64]")
    assert epsilon.ending is Ending.REFUSED
    assert (report.backend.label, report.backend.simulated) == ("Kelvin K1", True)


LINE = 'addopts = ["-p", "northbridge_conformance.pytest_plugin"]\n'


@pytest.mark.parametrize(
    ("suite", "with_the_line"),
    [("northbridge_conformance", True), ("northbridge.conformance", True), ("northbridge.conformance", False)],
)
def test_its_repository_adopts_the_levels_by_four_classes(
    site: Site, tmp_path: Path, suite: str, with_the_line: bool
) -> None:
    """A repository from before the suite was a distribution imports them by another name, and lacks a line."""
    repository = tmp_path / "repository"
    copy_template(repository, "kelvin")
    tests, description = repository / "tests" / "test_conformance.py", repository / "pyproject.toml"
    tests.write_text(tests.read_text().replace("northbridge_conformance", suite))
    if not with_the_line:
        assert LINE in description.read_text()
        description.write_text(description.read_text().replace(LINE, ""))
    some = [
        f"tests/test_conformance.py::Test{name}" for name in ("C0::TestDeclaration", "C1::TestDevice::test_indexing")
    ]
    pytest_of_theirs = (sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", *some)

    tested = run(*pytest_of_theirs, site=site, folder=repository, environ=SIMULATED)

    if with_the_line:
        assert tested.returncode == 0, tested.stdout
        assert " passed" in tested.stdout
    else:
        assert tested.returncode != 0
        assert LINE.strip() in tested.stdout
