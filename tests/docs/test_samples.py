"""Every sample in README and docs runs, and does what the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.core.conftest import TEMPLATE, Install, copy_template, install as install
from tests.docs.page import PAGES, ROOT, Sample, samples, shows
from tests.engines import with_engines
from tests.forks.suite import forking
from tests.scripts import run_command, run_forked, run_script

from northbridge.contract import Contract

VENDORS = {"docs/backend-interfaces.md": ("acme", "flint"), "docs/prove-your-backend.md": ("kelvin",)}
"""The vendors' distributions that must be installed for a page's samples."""

AFRESH = (
    "README.md",
    "docs/notebook-and-cli.md",
    "docs/precision.md",
    "docs/ray.md",
    "docs/xpu.md",
    *VENDORS,
)
"""The pages that a user begins with, those that set what is read at ``import torch``, and those with other packages."""

WITH_ENGINES = ("docs/hpu.md", "docs/larger-models.md", "docs/precision.md", "docs/ray.md")
"""The pages whose samples need what is in ``.engines``."""


def _commands(page: str, program: str) -> list[tuple[str, str]]:
    """Return the commands of ``program`` in the page's fences that show a terminal, each with what it prints."""
    found = (
        shown
        for sample in samples(page, "console")
        for shown in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", sample.code, flags=re.M)
    )
    return [each for each in found if re.match(rf"(\w+=\S+ )*{program}\b", each[0])]


def _files(page: str) -> dict[str, str]:
    """Return the files that the page shows whole, by their titles."""
    return dict(re.findall(r'^```\w+ title="([\w.-]+\.\w+)"\n(.*?)^```$', PAGES[page].read_text(), flags=re.M | re.S))


COMMANDS = [(page, *each) for page in PAGES for each in _commands(page, "northbridge")]
SCRIPTS = [
    page
    for page in PAGES
    if page.startswith("docs/")
    and any(
        f"python {file}" in each and "NODE_RANK=" not in each
        for each, _ in _commands(page, "python")
        for file in _files(page)
    )
]
"""The pages with commands that run a script of the page, on one node; those of examples/ run on their chips."""


APART = {"northbridge-npu": "npu", "northbridge-xpu": "xpu"}
"""Distributions that a page shows only if it simulates their chips, or names their folders."""


def _environ(page: str, install: Install) -> dict[str, str]:
    environ = install(*VENDORS[page]).environ() if page in VENDORS else dict(os.environ)
    if page in WITH_ENGINES:
        environ = with_engines()
    path = [str(Path(__file__).with_name("hidden")), *filter(None, [environ.get("PYTHONPATH")])]
    text = PAGES[page].read_text()
    hidden = " ".join(
        each for each, name in APART.items() if not re.search(rf"SIMULATE={name}|(backends/|northbridge-){name}", text)
    )
    return {**environ, "PYTHONPATH": os.pathsep.join(path), "HIDDEN_DISTRIBUTIONS": hidden}


@pytest.mark.parametrize("page", [page for page in PAGES if samples(page, "python")])
def test_the_samples_of_a_page_do_what_it_says(page: str, tmp_path: Path, install: Install) -> None:
    code = samples(page, "python")
    todo = tmp_path / "samples.json"
    todo.write_text(json.dumps([(page, each.line, each.code) for each in code]))

    run = run_script if page in AFRESH else run_forked
    ran = run(Path(__file__).with_name("run_page.py"), str(todo), folder=tmp_path, environ=_environ(page, install))

    outputs = re.split(r"^@@ sample \d+\n", ran.said, flags=re.M)[1:]
    assert (ran.status, len(outputs)) == (0, len(code)), ran.said
    wrong = [f"{page}:{each.line}\n{out}" for each, out in zip(code, outputs, strict=True) if not _right(each, out)]
    assert not wrong, "\n".join(wrong)


def _right(sample: Sample, output: str) -> bool:
    raised = re.search(r"^@@ raised ([\w.]+)", output, flags=re.M)
    return shows(output, sample.shown) and (raised is None or sample.shown.startswith(f"{raised[1]}: "))


@pytest.mark.parametrize(("page", "command", "shown"), COMMANDS)
def test_a_command_prints_what_is_shown(page: str, command: str, shown: str, install: Install, tmp_path: Path) -> None:
    variables, _, arguments = command.partition("northbridge ")
    environ = {**_environ(page, install), "COLUMNS": "100", **dict(each.split("=", 1) for each in variables.split())}

    if arguments.startswith("conformance"):
        environ = forking(environ)

    northbridge = str(Path(sys.executable).with_name("northbridge"))
    done = run_command(northbridge, *shlex.split(arguments), folder=tmp_path, environ=environ)

    assert done.returncode == 0, done.stdout + done.stderr
    assert shows(done.stdout, shown), done.stdout


@pytest.mark.parametrize("page", SCRIPTS)
def test_the_scripts_of_a_page_print_what_it_shows(page: str, tmp_path: Path, install: Install) -> None:
    """In order, in one folder: a command may go on from what the one before it has written."""
    files = _files(page)
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    for command, shown in _commands(page, "python"):
        variables, _, arguments = command.partition("python ")
        script, *others = shlex.split(arguments)
        if script in files:
            given = dict(each.split("=", 1) for each in variables.split())
            server = {"NORTHBRIDGE_HPU_SIM_SERVER": str(tmp_path / "server")}  # a server of its own, with free cards
            environ = {**_environ(page, install), **server, **given}
            both = ("sh", "-c", 'exec "$0" -u "$@" 2>&1')  # in the order in which a terminal shows them
            ran = run_command(*both, sys.executable, script, *others, folder=tmp_path, environ=environ)
            assert ran.returncode == 0, ran.stdout
            assert shows(ran.stdout, shown), ran.stdout


def test_interfaces_show_working_plugins(tmp_path: Path) -> None:
    page, acme = "docs/backend-interfaces.md", ROOT / "tests" / "vendors" / "acme"
    copy_template(tmp_path / "kelvin", "kelvin")
    vendors = [ROOT / "tests" / "vendors" / "flint", tmp_path / "kelvin"]
    shipped = [file.read_text() for vendor in vendors for file in vendor.rglob("*") if file.suffix in (".toml", ".py")]
    plugin, *_ = samples(page, "python")
    metadata, contract, *files = samples(page, "toml")
    (tmp_path / "contract.toml").write_text(contract.code)

    assert plugin.code == (acme / "northbridge_acme" / "__init__.py").read_text()
    of_acme = [line.partition(" #")[0] for line in (acme / "pyproject.toml").read_text().splitlines()]
    assert not set(metadata.code.splitlines()) - set(of_acme)
    (symbol,) = Contract.read(tmp_path / "contract.toml").symbols
    assert (symbol.name, symbol.tried) == ("torch.acme.device_count", True)
    shown = [part.strip() for each in (*files, *samples(page, "py")) for part in each.code.split("\n\n")]
    assert len(shown) > 5
    assert [part for part in shown if not any(part in text for text in shipped)] == []


def test_the_story_quotes_the_backend_that_it_is_about() -> None:
    """Each part that it shows is in one of the backend's files."""
    page = "docs/write-a-backend.md"
    shipped = [file.read_text() for file in (ROOT / "backends" / "xpu").rglob("*") if file.suffix in (".toml", ".py")]
    quoted = [each.code for kind in ("py", "toml") for each in samples(page, kind)]
    parts = [part.strip() for each in quoted for part in each.split("\n\n")]

    assert len(parts) > 8
    assert [part for part in parts if not any(part in text for text in shipped)] == []


def test_the_story_names_the_files_that_the_template_makes() -> None:
    named = re.findall(r"^\| (`[^|]+`) \|", PAGES["docs/write-a-backend.md"].read_text(), flags=re.M)
    made = {each.relative_to(TEMPLATE).as_posix().removesuffix(".jinja") for each in TEMPLATE.rglob("*")}
    made = {each.replace("northbridge_{{ name }}/", "") for each in made}

    assert {word.strip("`/") for cell in named for word in cell.split(", ")} - made == set()
