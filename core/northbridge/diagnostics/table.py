"""Printing of the list for a person."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from northbridge.diagnostics.backends import BackendRow
from northbridge.diagnostics.diagnosis import Diagnosis
from northbridge.diagnostics.namespaces import NamespaceRow
from northbridge.discovery.cards import on_cards
from northbridge.untrusted.terminal import Terminal

_STYLES = {
    "ready": "green",
    "registered": "green",
    "broken": "red",
    "timed out": "red",
    "malicious": "bold red",
    "left alone": "red",
    "not registered": "yellow",
    "other chip": "yellow",
    "unsupported": "yellow",
    "off": "dim",
    "not installed": "dim",
}
_COLUMNS = ("backend", "version", "distribution", "status", "loadable", "devices", "simulated")


def show(found: Diagnosis) -> None:
    """Print the whole list to stdout."""
    console = Terminal(highlight=False)
    show_torch_problem(console, found.torch_problem)
    show_rows(console, found)
    print_pairs(console, _remarks(found))


def show_torch_problem(console: Terminal, problem: str) -> None:
    """Print in one line why ``import torch`` fails: other findings say little then."""
    if problem:
        console.print(Text(problem, style="red"), soft_wrap=True)
        console.print()


def show_rows(console: Terminal, found: Diagnosis) -> None:
    """Print a table of the backends and one of Lightning's namespaces, each with its reasons below."""
    backends, namespaces = [each.states for each in found.backends], found.namespaces
    if backends:
        console.print(_backends(backends, console.width))
        _print_reasons(console, backends)
    else:
        console.print("No backend is installed.")
    console.print()
    if any(row.status != "not installed" for row in namespaces):
        console.print(_namespaces(namespaces))
        _print_reasons(console, namespaces)
    else:
        from northbridge.lightning.versions import INSTALL

        console.print(Text(f"Lightning is not installed. Fix: {INSTALL}", style="yellow"))


def _backends(rows: Sequence[BackendRow], width: int) -> Table:
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(_COLUMNS, *cells, strict=True)]
    place = _COLUMNS.index("distribution")
    left = max(12, width - sum(widths) + widths[place])
    table = make_table(*_COLUMNS, folding=("backend", "distribution"))
    for row, (name, _, _, *answers) in zip(rows, cells, strict=True):
        # Each of two distributions that claim one name gets its own line.
        claims = zip(row.version.split(", "), row.distribution.split(", "), strict=True)
        first, *more = ((version, textwrap.fill(distribution, left)) for version, distribution in claims)
        style = _STYLES.get(row.status, "")
        add_row(table, style, name, *first, *answers)
        for each in more:
            add_row(table, style, "", *each)
    return table


def _cells(row: BackendRow) -> tuple[str, ...]:
    unknown = "not asked" if row.status == "not asked" else "-"
    loadable, devices, simulated = (_word(answer, unknown) for answer in (row.loadable, row.devices, row.simulated))
    if row.devices:
        devices += on_cards(row.cards)
    version = max(row.version.split(", "), key=len)
    return row.name, version, max(row.distribution.split(", "), key=len), row.status, loadable, devices, simulated


def _namespaces(rows: Sequence[NamespaceRow]) -> Table:
    table = make_table("Lightning", "version", "distribution", "status")
    for row in rows:
        add_row(table, _STYLES.get(row.status, ""), row.name, row.version, row.distribution, row.status)
    return table


def make_table(*columns: str, folding: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the columns in ``folding`` wrap if there is too little room."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column not in folding)
    return table


def add_row(table: Table, style: str, *cells: str) -> None:
    """Add a row of plain texts."""
    # Text, because a cell that is a string is read as markup, which removes brackets.
    table.add_row(*(Text(cell) for cell in cells), style=style)


def _word(answer: bool | int | None, unknown: str) -> str:
    if answer is None:
        return unknown
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return str(answer)


def _print_reasons(console: Terminal, rows: Sequence[BackendRow | NamespaceRow]) -> None:
    print_pairs(console, [(row.name, row.reason, _STYLES.get(row.status, "")) for row in rows if row.reason])


def _remarks(found: Diagnosis) -> list[tuple[str, str, str]]:
    """Return the entries of the record beyond the rows, such as a name that another package has in a namespace."""
    told = {namespace.name for namespace in found.namespaces} | {
        each.states.name for each in found.backends if each.states.reason
    }
    return [
        (entry.subject, f"{entry.outcome}: {entry.reason}", "yellow")
        for entry in found.record
        if entry.subject not in told
    ]


def print_pairs(console: Terminal, pairs: Sequence[tuple[str, str, str]]) -> None:
    """Print lines of a subject, a text, and a style."""
    if not pairs:
        return
    # Reasons get the whole width: in a column of the table they would be ten characters wide.
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for who, what, style in pairs:
        grid.add_row(Text(who), Text(what), style=style)
    console.print()
    console.print(grid)
