"""Write the pages about commands, variables, names and claims from the code: ``make reference``.

``make docs`` fails if one of them says something else than the code.
"""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import textwrap
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import griffe
import pydantic
from typer.testing import CliRunner

from northbridge.capabilities import Capabilities
from northbridge.cli import app
from northbridge.settings import CoreSettings, Settings
from northbridge_conformance.levels import LEVELS
from northbridge_conformance.runner.supervisor import plan

ROOT = Path(__file__).parents[2]
_HEAD = "---\nsearch:\n  boost: 0.8\n---\n\n"

COMMANDS_TOP = """# Commands

`make reference` writes this page from the code, and `make docs` checks it. `northbridge COMMAND --help` prints
the same.
"""
CLAIMS_TOP = """# What tests a claim

`make reference` writes this page from the suite, and `make docs` checks it. A report lists the claims of each test.
The claim `operators` is shown by every test of C1 that calls the operator on the chip, as `operators.NAME`.
"""
VARIABLES_TOP = """# Variables

`make reference` writes this page from the code, and `make docs` checks it. A wrong value is an error that says
what is allowed; an empty variable counts as unset. Vendors' own variables are listed as far as Northbridge reads them.
"""


def write_commands() -> str:
    """Return the page with the help of each command."""
    app._add_commands()
    asked, run = sorted(str(each.name) for each in app.app.registered_commands), CliRunner().invoke
    helps = [
        (name, run(app.app, [name, "--help"], prog_name="northbridge", terminal_width=90).stdout) for name in asked
    ]
    return _HEAD + COMMANDS_TOP + "".join(f"\n## northbridge {name}\n\n{_block(said)}\n" for name, said in helps)


def _block(said: str) -> str:
    lines = (line.rstrip() for line in said.strip().removeprefix("Usage: ").splitlines())
    return "\n".join(["```text", *lines, "```"])


def write_variables() -> str:
    """Return the page about each variable of the core and of each installed backend."""
    parts = [_HEAD, VARIABLES_TOP, _section("The core", CoreSettings)]
    for entry in sorted(entry_points(group="northbridge.distributions"), key=lambda each: each.name):
        parts += [_section(title, kind) for title, kind in _settings(entry.name, entry.value)]
    return "".join(parts)


def _settings(name: str, package: str) -> Iterator[tuple[str, type[Settings]]]:
    for title, module in ((name, f"{package}.settings"), (f"The simulated {name}", f"{package}.simulated.machine")):
        if find_spec(f"{package}.simulated") is None and module.endswith("machine"):
            continue
        found = vars(import_module(module)).values()
        for kind in found:
            if isinstance(kind, type) and issubclass(kind, Settings) and kind.__module__ == module:
                yield title, kind


def _section(title: str, kind: type[Settings]) -> str:
    does = _docstrings(kind)
    rows = [
        f"| `{kind.variable(name)}` | {does.get(name, '')} | {_default(kind, name)} | {field.description} |"
        for name, field in kind.model_fields.items()
    ]
    return "\n".join([f"\n## {title}\n", "| variable | does | default | allowed |", "|---|---|---|---|", *rows, ""])


def _docstrings(kind: type[Settings]) -> dict[str, str]:
    """Return the first sentence of the docstring below each field."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, after in pairwise(tree.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = _sentence(text)
    return found


def _sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, as Markdown."""
    text = re.sub(r":\w+:`|``", "`", " ".join(docstring.split("\n\n")[0].split()))
    return text.partition(". ")[0].rstrip(".:")


def _default(kind: type[Settings], name: str) -> str:
    default = getattr(kind.model_construct(), name)
    if isinstance(default, pydantic.ByteSize):
        return default.human_readable()
    if isinstance(default, bool):
        return str(int(default))
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return "" if default in (None, frozenset(), "") else str(default).replace(str(Path.home()), "~")


def write_claims() -> str:
    """Return the page about the classes of tests that show each claim."""
    shown: dict[str, dict[str, set[str]]] = {claim: {} for claim in Capabilities().claims()}
    with TemporaryDirectory() as folder:
        for test in plan(Path(folder), "cpu_sim", tuple(LEVELS)).values():
            level, suite, _ = test.id.split("/", 2)
            for claim in test.claims:
                shown[claim].setdefault(level, set()).add(suite)
    rows = [
        f"| `{claim}` | {'; '.join(f'{level}: ' + ', '.join(sorted(suites)) for level, suites in levels.items())} |"
        for claim, levels in shown.items()
    ]
    return "\n".join([CLAIMS_TOP, "| claim | classes of tests |", "|---|---|", *rows, ""])


def write_names(page: Path) -> str:
    """Return ``page`` with the first sentence of each name's docstring; the site has the whole docstring instead."""
    line: re.Pattern[str] = runpy.run_path(str(Path(__file__).with_name("site_pages.py")))["NAME"]
    found = griffe.ModulesCollection()
    for package, folder in (("northbridge", "core"), ("northbridge_conformance", "conformance")):
        griffe.load(package, search_paths=[ROOT / folder], modules_collection=found)

    def say(shown: re.Match[str]) -> str:
        docstring = found[shown["name"]].docstring
        said = f": {_sentence(docstring.value)}" if docstring else ""
        options = f" <!-- {shown['options']} -->" if shown["options"] else ""
        return f"- `{shown['name']}`{said}{options}"

    return line.sub(say, page.read_text())


REFERENCE = ROOT / "docs" / "reference"
PAGES = {
    ROOT / "conformance" / "claims.md": write_claims,
    REFERENCE / "commands.md": write_commands,
    REFERENCE / "lightning.md": lambda: write_names(REFERENCE / "lightning.md"),
    REFERENCE / "plugin.md": lambda: write_names(REFERENCE / "plugin.md"),
    REFERENCE / "variables.md": write_variables,
}


def find_stale() -> list[str]:
    """Return the pages that say something else than the code."""
    return [page.name for page, write in PAGES.items() if page.read_text() != write()]


if __name__ == "__main__":
    for page, write in PAGES.items():
        page.write_text(write())
