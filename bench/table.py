"""The figures as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from bench.bounds import Unit
from bench.figure import Figure

_STYLES = {"OVER": "bold red", "within": "green", "no bound": "dim"}


def table(figures: Sequence[Figure], *, quick: bool) -> Table:
    """Return one row a figure; the spread is from the first to the third quartile."""
    title = "Northbridge, measured" + (
        " (quick: few rounds, for a smoke run; compare nothing with this)" if quick else ""
    )
    result = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("what", "median", "quartiles", "rounds", "bound", "verdict"):
        aside = column in ("rounds", "bound")
        result.add_column(column, justify="right" if aside else "left", no_wrap=column != "what", overflow="fold")
    for figure in figures:
        first, third = figure.quartiles
        unit, limit = figure.bound.unit, figure.bound.limit
        parts = ", ".join(f"{name} {part}" for name, part in figure.measurement.parts.items())
        result.add_row(
            Text.assemble(figure.bound.what, "\n" if parts else "", (parts, "dim")),
            amount(figure.value, unit),
            f"{amount(first, unit)} – {amount(third, unit)}",
            str(len(figure.measurement.values)),
            "" if limit is None else f"≤ {amount(limit, unit)}",
            Text(figure.verdict, style=_STYLES[figure.verdict]),
        )
    return result


def amount(value: float, unit: Unit) -> str:
    """Return a figure with its unit; a ratio has three decimals, for its bound has two."""
    if unit == "×":
        return f"{value:.3f} ×"
    return f"{value:.3g} {unit}"
