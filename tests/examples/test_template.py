"""The template of a backend's distribution: one command makes it, pip installs it, and it earns C0 as it is."""

from __future__ import annotations

import ast
import keyword
import os
import re
import sys
from pathlib import Path

import pytest
import torch.distributed
from copier import run_copy
from tests.core.conftest import TEMPLATE, copy_template
from tests.forks.suite import forking
from tests.scripts import run_command

from northbridge.discovery.installed import LIGHTNING_NAMES
from northbridge_conformance.report.report import Report

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))

pytestmark = pytest.mark.timeout(600)  # level C0 has limits of its own


def _ran(*command: str, folder: Path, environ: dict[str, str] | None = None) -> str:
    done = run_command(*command, folder=folder, environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution that the template makes, with the default answers."""
    folder = tmp_path_factory.mktemp("template") / "northbridge-red-granite"
    copy_template(folder, "red_granite")
    return folder


def test_made_package_is_installed_and_earns_c0(made: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")
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


BACKENDS = tuple((TEMPLATE.parents[1] / "backends").glob("*/northbridge_*"))
LETTERS, LINE = "Use lower-case letters a to z, digits", "Write one line without double quotes and backslashes"
PACKAGE = "Write the top-level package, as Python imports it"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"name": "Granite-1"}, LETTERS),
        ({"name": "é"}, LETTERS),
        ({"name": "granite_"}, LETTERS),
        ({"name": "class"}, "Python has the word class; use another name"),
        ({"name": "sdaa"}, "Northbridge has the word sdaa; use another name"),
        ({"name": "cuda"}, "Lightning has the word cuda; use another name"),
        ({"name": "xla"}, "torch has the word xla; use another name"),
        ({"chip": 'Acme "One"'}, LINE),
        ({"chip": "a\\b"}, LINE),
        ({"chip": "a\u2028b"}, LINE),
        ({"chip": " "}, LINE),
        ({"package": "class"}, PACKAGE),
        ({"package": 'x"'}, PACKAGE),
        ({"package": "torch"}, "torch is not a vendor's; write the vendor's package"),
        ({"collective": 'x"'}, LETTERS),
        ({"collective": "nccl"}, "torch.distributed has the word nccl; use another name"),
    ],
)
def test_an_answer_that_would_break_a_file_is_refused(answer: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        run_copy(str(TEMPLATE), tmp_path / "made", data={"name": "granite", **answer}, defaults=True, quiet=True)

    assert not (tmp_path / "made").exists()


def test_other_signs_of_a_chips_name_stay_as_they_are(tmp_path: Path) -> None:
    chip = "It's {the} Böse #1: $x, `y` & {{ name }}"

    run_copy(str(TEMPLATE), tmp_path, data={"name": "granite", "chip": chip}, defaults=True, quiet=True)

    package = tmp_path / "northbridge_granite"
    assert {ast.get_docstring(ast.parse(each.read_text())) is not None for each in package.rglob("*.py")} == {True}
    assert tomllib.loads((package / "simulated" / "device.toml").read_text())["device"]["label"] == chip
    assert tomllib.loads((package / "contract.toml").read_text())["vendor"] == chip
    assert tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["description"].startswith(chip)


def test_template_knows_the_words_that_are_taken(tmp_path: Path) -> None:
    asked = run_copy(str(TEMPLATE), tmp_path, data={"name": "granite"}, defaults=True, quiet=True, pretend=True)
    taken = asked.answers.combined["taken"]
    with pytest.raises(RuntimeError) as told:
        torch.device("granite")
    (types,) = re.findall(r"Expected one of (.*) device type", str(told.value))

    assert set(taken["Lightning"]) == LIGHTNING_NAMES
    assert {f"northbridge_{name}" for name in taken["Northbridge"]} == {each.name for each in BACKENDS}
    assert {*taken["torch"], *taken["Lightning"], *taken["Northbridge"]} >= set(types.split(", "))
    assert set(taken["torch.distributed"]) >= set(torch.distributed.Backend.backend_list) - {"simccl"}
    assert set(taken["Python"]) == {word.lower() for word in keyword.kwlist}
