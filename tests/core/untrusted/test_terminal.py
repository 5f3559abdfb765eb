"""The terminal, on which nothing from outside does anything but be read."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from northbridge.untrusted.terminal import Terminal

CORE = Path(__file__).parents[3] / "core"
HOSTILE = "1.0\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b31m\x08\u202eevil"
SHOWN = "\\u009b31m\\u202eevil"
ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def printed(what: object, *, colours: bool = False) -> str:
    file = io.StringIO()
    Terminal(file=file, force_terminal=colours, width=100, highlight=False).print(what)
    return file.getvalue()


def table() -> Table:
    made = Table("version")
    made.add_row(Text(HOSTILE, style="red"))
    return made


@pytest.mark.parametrize("what", [HOSTILE, Text(HOSTILE, style="bold"), table()], ids=["line", "text", "table"])
def test_a_text_from_outside_is_shown_and_does_nothing(what: object) -> None:
    assert SHOWN[:10] in printed(what)  # a cell is cut where its column ends
    assert not ORDERS.search(printed(what))


def test_the_terminals_own_colours_stay() -> None:
    said = printed(Text(HOSTILE, style="bold"), colours=True)

    assert said.startswith("\x1b[1m")
    assert said.endswith(f"{SHOWN}\x1b[0m\n")
    assert not ORDERS.search(said.removeprefix("\x1b[1m").removesuffix("\x1b[0m\n"))


def test_what_is_under_way_is_cleaned_too() -> None:
    file = io.StringIO()
    with Terminal(file=file, force_terminal=True, width=100).status(Text(HOSTILE)):
        pass

    assert SHOWN in file.getvalue()
    assert "\x1b]" not in file.getvalue()
    assert "\x9b" not in file.getvalue()


def test_no_other_console_is_made_in_the_core() -> None:
    """So that nothing is printed past it."""
    makers = {
        str(file.relative_to(CORE))
        for file in CORE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for name in node.names
        if name.name in ("Console", "print", "get_console", "rich.console")
    }

    assert makers == {"northbridge/untrusted/terminal.py"}
