"""Text from outside as it is shown: it can be read, and does nothing, on a terminal too."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import northbridge
from northbridge.discovery.simulated import reject_unknown_simulation
from northbridge.launch.cluster import check_variables
from northbridge.settings import CoreSettings
from northbridge.untrusted.terminal import Terminal
from northbridge.untrusted.text import clean, clean_message, clean_values, shorten


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        pytest.param("\x1b[1;31mE  assert\x1b[0m 1", "E  assert 1", id="colours"),
        pytest.param("\x1b]8;;https://example.org\x07link\x1b]8;;\x07", "link", id="a terminal's link"),
        pytest.param("\x1b(Bplain\x1b=", "plain", id="other codes of terminals"),
        pytest.param("10%\r20%\r\ndone", "10%\n20%\ndone", id="a progress bar"),
        pytest.param("a\x00b\x07", "a\\u0000b\\u0007", id="control characters"),
        pytest.param("rank \u202e0 knar", "rank \\u202e0 knar", id="what turns the order of words"),
        pytest.param("\ud800", "\\ud800", id="half a character"),
        pytest.param("\tdéjà vu, 試験\n", "\tdéjà vu, 試験\n", id="text of any language"),
    ],
)
def test_what_is_shown_of_what_was_printed(printed: str, shown: str) -> None:
    assert clean(printed) == shown


def test_values_of_json_are_cleaned_at_each_depth() -> None:
    found = {"\x1b[31mred": ["\x7f", ("\x1b[0m", 1, None, True)], "plain": {"deep": "\u202e"}}

    assert clean_values(found) == {"red": ["\\u007f", ["", 1, None, True]], "plain": {"deep": "\\u202e"}}


def test_a_long_text_is_cut_to_one_line_of_200() -> None:
    assert shorten("first\n  second\t\x1b[1mthird\x1b[0m") == "first second third"
    assert shorten("x" * 200) == "x" * 200
    assert shorten("x" * 201) == "x" * 199 + "…"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("x" * 1000, "'" + "x" * 199 + "…'", id="letters"),
        pytest.param("it's " * 100, '"' + ("it's " * 100)[:199] + '…"', id="apostrophes"),
        pytest.param("x" * 200, repr("x" * 200), id="just short enough"),
    ],
)
def test_a_message_cuts_each_text_that_it_quotes(written: str, shown: str) -> None:
    """Apostrophes are not quotes, however far apart they stand."""
    end = f"{' and more' * 50} isn't allowed: 'on' or 'off' is"

    assert clean_message(f"the ranks' variable ACME={written!r}{end}") == f"the ranks' variable ACME={shown}{end}"


LONG = "a" * 5000


def long_simulation() -> None:
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("NORTHBRIDGE_SIMULATE", LONG)
        reject_unknown_simulation()


@pytest.mark.parametrize(
    ("ask", "end"),
    [
        pytest.param(lambda: CoreSettings.read({"NORTHBRIDGE_DETECT_TIMEOUT": LONG}), "(default: 20.0)", id="number"),
        pytest.param(lambda: CoreSettings.read({"NORTHBRIDGE_SIMULATE": "'\"\\" * 999}), "unset it", id="quotes"),
        pytest.param(lambda: check_variables({"NODE_RANK": "9" * 5000}), "unset it", id="cluster"),
        pytest.param(lambda: check_variables({"MASTER_ADDR": LONG, "MASTER_PORT": "1"}), "reach>", id="address"),
        pytest.param(lambda: northbridge.get(LONG), "says more", id="backend"),
        pytest.param(long_simulation, "says more", id="simulation"),
    ],
)
def test_an_error_about_a_long_value_can_be_read(ask: Callable[[], object], end: str) -> None:
    with pytest.raises(northbridge.NorthbridgeError) as caught:
        ask()

    said = str(caught.value)
    assert len(said) < 600
    assert said.endswith(end)


CORE = Path(__file__).parents[2] / "core"
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
    """What is under way is cleaned too."""
    said, file = printed(Text(HOSTILE, style="bold"), colours=True), io.StringIO()
    with Terminal(file=file, force_terminal=True, width=100).status(Text(HOSTILE)):
        pass

    assert said.startswith("\x1b[1m")
    assert said.endswith(f"{SHOWN}\x1b[0m\n")
    assert not ORDERS.search(said.removeprefix("\x1b[1m").removesuffix("\x1b[0m\n"))
    assert SHOWN in file.getvalue()
    assert not any(each in file.getvalue() for each in ("\x1b]", "\x9b"))


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
