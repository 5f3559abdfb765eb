"""The template of a backend's distribution: one command makes it, pip installs it, and it earns C0 as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.core.conftest import TEMPLATE, copy_template
from tests.forks.suite import forking

from northbridge.conformance.report.report import Report
from northbridge.discovery.installed import LIGHTNING_NAMES

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))

pytestmark = pytest.mark.timeout(600)  # level C0 has limits of its own


def _ran(*command: str, folder: Path, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution that the template makes, with the default answers."""
    folder = tmp_path_factory.mktemp("template") / "northbridge-red-granite"
    copy_template(folder, "red_granite")
    return folder


def test_made_package_is_installed_and_earns_c0(made: Path, tmp_path: Path) -> None:
    pip = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
    )
    _ran(*pip, "--target", str(tmp_path / "site"), str(made), folder=tmp_path)
    path = os.pathsep.join(filter(None, [str(tmp_path / "site"), os.environ.get("PYTHONPATH")]))
    environ = forking({**os.environ, "PYTHONPATH": path})

    command = (NORTHBRIDGE, "conformance", "red_granite", "--level", "C0", "--out", "report")
    said = _ran(*command, folder=tmp_path, environ=environ)

    report = Report.read(tmp_path / "report" / "report.json")
    assert [(level.name, level.granted) for level in report.levels] == [("C0", True)], said
    assert (report.backend.distribution, report.backend.simulated) == ("northbridge-red-granite", False)


def test_made_files_are_those_of_a_backend(made: Path) -> None:
    """As in backends/, so that a vendor finds in its own what it has read in another."""
    package = made / "northbridge_red_granite"
    theirs = {each.name for each in (Path(__file__).parents[2] / "backends/sdaa/northbridge_sdaa").iterdir()}

    assert {each.name for each in package.iterdir()} <= theirs
    assert (package / "simulated" / "torch_red_granite" / "__init__.py").is_file()
    files = {each: each.read_text().replace("${{", "") for each in made.rglob("*") if each.is_file()}
    assert not [each for each, text in files.items() if "{{" in text or each.suffix == ".jinja"]


def test_made_code_is_formatted_and_checked(made: Path) -> None:
    _ran(sys.executable, "-m", "ruff", "format", "--check", ".", folder=made)
    _ran(sys.executable, "-m", "ruff", "check", "--select=F,I,RUF", ".", folder=made)


@pytest.mark.parametrize(("name", "said"), [("cuda", "Lightning has a cuda"), ("Granite-1", "Use lower-case letters")])
def test_bad_name_is_refused_before_anything_is_made(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        copy_template(tmp_path / "made", name)

    assert not (tmp_path / "made").exists()


def test_template_knows_the_names_of_lightning() -> None:
    (line,) = [each for each in (TEMPLATE / "copier.yml").read_text().splitlines() if "name in [" in each]

    assert {word for word in line.split('"') if word.isidentifier()} == LIGHTNING_NAMES
