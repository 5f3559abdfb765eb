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
from tests.scripts import run_command, run_forked, run_script

from northbridge.contract import Contract

VENDORS = {"docs/backend-interfaces.md": ("acme", "flint"), "docs/prove-your-backend.md": ("kelvin",)}
"""The vendors' distributions that must be installed for a page's samples."""

AFRESH = (
    "README.md",
    "docs/float8.md",
    "docs/getting-started.md",
    "docs/ray.md",
    "docs/simulated-gaudi.md",
    "docs/simulated-teco.md",
    "docs/xpu.md",
    *VENDORS,
)
"""The pages that a user begins with, those that set what is read at ``import torch``, and those with other packages."""

COMMANDS = [
    (page, command, shown)
    for page in PAGES
    for sample in samples(page, "console")
    for command, shown in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", sample.code, flags=re.M)
    if re.match(r"(\w+=\S+ )*northbridge\b", command)
]
"""The commands of ours in fences that show a terminal, each with what it prints."""


APART = {"northbridge-npu": "npu", "northbridge-xpu": "xpu"}
"""Distributions that a page shows only if it simulates their chips, or names their folders."""


def _environ(page: str, install: Install) -> dict[str, str]:
    environ = install(*VENDORS[page]).environ() if page in VENDORS else dict(os.environ)
    if page in ("docs/deepspeed.md", "docs/float8.md", "docs/ray.md"):
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

    northbridge = str(Path(sys.executable).with_name("northbridge"))
    done = run_command(northbridge, *shlex.split(arguments), folder=tmp_path, environ=environ)

    assert done.returncode == 0, done.stdout + done.stderr
    assert shows(done.stdout, shown), done.stdout


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
    """Whole files are included when the site is built; each other part is in one of them, or in the template."""
    page = "docs/write-a-backend.md"
    shipped = [file.read_text() for file in (ROOT / "backends" / "xpu").rglob("*") if file.suffix in (".toml", ".py")]
    quoted = [each.code for kind in ("py", "toml") for each in samples(page, kind)]
    included = re.findall(r'^--8<-- "(.+)"$', "".join(quoted), flags=re.M)

    assert len(included) >= 6
    assert [file for file in included if not (ROOT / file).is_file()] == []
    parts = [part.strip() for each in quoted if "--8<--" not in each for part in each.split("\n\n")]
    assert [part for part in parts if not any(part in text for text in shipped)] == []


def test_the_story_names_the_files_that_the_template_makes() -> None:
    named = re.findall(r"^\| (`[^|]+`) \|", PAGES["docs/write-a-backend.md"].read_text(), flags=re.M)
    made = {each.relative_to(TEMPLATE).as_posix().removesuffix(".jinja") for each in TEMPLATE.rglob("*")}
    made = {each.replace("northbridge_{{ name }}/", "") for each in made}

    assert {word.strip("`/") for cell in named for word in cell.split(", ")} - made == set()
